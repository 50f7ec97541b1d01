// prompts.h — the prompts that quality is measured with. Fixed, as are their seeds (their places in this list): the
// sixteen of the model's own samples (models/emoji-zimage/README.md), then sixteen names of emoji, which are what the
// model was taught.
#ifndef GRAFT_TESTS_QUALITY_PROMPTS_H
#define GRAFT_TESTS_QUALITY_PROMPTS_H

enum { QUALITY_N_PROMPTS = 32 };

static const char *const quality_prompts[QUALITY_N_PROMPTS] = {
    "a grinning cat face",
    "a red apple on a blue background",
    "a dog on the left and a pizza on the right",
    "three strawberries in a row on a green background",
    "a rocket, 3d style",
    "a hamburger",
    "a small red car on a yellow background",
    "a penguin, flat style",
    "a sunflower, twemoji style",
    "a smiling face with sunglasses",
    "an octopus on a light blue background",
    "a birthday cake",
    "a house next to a tree",
    "two bananas",
    "a guitar on a purple background, 3d style",
    "a robot",
    "a sun with face",
    "an evergreen tree",
    "an automobile",
    "a red heart",
    "a crying face",
    "a hot beverage",
    "a snowman",
    "grapes",
    "a panda",
    "a fire engine",
    "a soccer ball",
    "a tropical fish",
    "a full moon face",
    "a lion",
    "a bicycle",
    "a cactus",
};

#endif
