// prompts.h — the prompts that quality is measured with. Fixed, as are their seeds (their places in this list).
#ifndef GRAFT_TESTS_QUALITY_PROMPTS_H
#define GRAFT_TESTS_QUALITY_PROMPTS_H

enum { QUALITY_N_PROMPTS = 32 };

static const char *const quality_prompts[QUALITY_N_PROMPTS] = {
    "a red apple on a blue background",
    "a grinning cat face",
    "a slice of pizza",
    "a dog on the left and a pizza on the right",
    "a yellow sun with a smiling face",
    "a green tree",
    "a blue car",
    "a rocket",
    "a red heart",
    "a crying face",
    "a cup of coffee",
    "a snowman",
    "a house with a garden",
    "an umbrella in the rain",
    "a bunch of grapes",
    "a panda face",
    "a fire engine",
    "a birthday cake with candles",
    "a soccer ball",
    "a guitar",
    "a purple octopus",
    "a tropical fish",
    "a burger",
    "a full moon with a face",
    "a rainbow",
    "a sleeping face",
    "a lion face",
    "a bicycle",
    "a cactus",
    "a penguin",
    "a strawberry on a yellow background",
    "a robot face",
};

#endif
