/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the fences of the guest's CPUs, for the modes that model a
 * write-combining buffer. What a fence does to the buffer is theirs to know
 * (weft_trace.c, weft_adversary.c).
 *
 * Fences are told under TCG only (system/fence.h), and only while a mode wants
 * them: each costs the big lock of QEMU.
 */
#include "qemu/osdep.h"
#include "weft_fence.h"
#include "weft_hook.h"
#include "weft_port.h"

static void weft_fence_told(Notifier *notifier, void *data)
{
    WeftPort *s = container_of(notifier, WeftPort, fence.notifier);
    const Fence *fence = data;

    weft_hook_fence(s, fence->cpu, fence->of);
}

/* qtest has no CPU that could execute a fence: it says so. */
static void weft_fence_set(Object *obj, bool value, Error **errp)
{
    if (value) {
        weft_hook_fence(WEFT_PORT(obj), NULL, FENCE_OF_ALL);
    }
}

static void weft_fence_switch(WeftPort *s, bool on)
{
    if (on == s->fence.on) {
        return;
    }
    s->fence.on = on;
    if (on) {
        fence_add_notifier(&s->fence.notifier);
    } else {
        fence_remove_notifier(&s->fence.notifier);
    }
}

void weft_fence_listen(WeftPort *s)
{
    weft_fence_switch(s, s->traced || s->adversary.on);
}

void weft_fence_init(WeftPort *s)
{
    s->fence.notifier.notify = weft_fence_told;
}

void weft_fence_exit(WeftPort *s)
{
    weft_fence_switch(s, false);
}

void weft_fence_class_init(ObjectClass *class)
{
    object_class_property_add_bool(class, "fence", NULL, weft_fence_set);
}
