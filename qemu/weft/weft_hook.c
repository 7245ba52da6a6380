/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the chain of hooks, asked in its order (weft_hook.h).
 */
#include "qemu/osdep.h"
#include "weft_hook.h"
#include "weft_port.h"

/* The hooks of @s, one after the other. */
#define WEFT_EACH(s, h) \
    for (const WeftHooks *const *next = (s)->hooks, *h; (h = *next); next++)

void weft_hook_init(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->init) {
            h->init(s);
        }
    }
}

void weft_hook_exit(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->exit) {
            h->exit(s);
        }
    }
}

void weft_hook_reset(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->reset) {
            h->reset(s);
        }
    }
}

void weft_hook_moved(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->moved) {
            h->moved(s);
        }
    }
}

bool weft_hook_silent(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->silent && h->silent(s)) {
            return true;
        }
    }
    return false;
}

void weft_hook_flush(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->flush) {
            h->flush(s);
        }
    }
}

void weft_hook_fence(WeftPort *s, const CPUState *cpu, FenceOf of)
{
    WEFT_EACH(s, h) {
        if (h->fence) {
            h->fence(s, cpu, of);
        }
    }
}

void weft_hook_drain(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->drain) {
            h->drain(s);
        }
    }
}

bool weft_hook_load(WeftPort *s, const WeftAccess *a)
{
    WEFT_EACH(s, h) {
        if (h->load && h->load(s, a)) {
            return true;
        }
    }
    return false;
}

bool weft_hook_store(WeftPort *s, const WeftAccess *a)
{
    WEFT_EACH(s, h) {
        if (h->store && h->store(s, a)) {
            return true;
        }
    }
    return false;
}

bool weft_hook_traps(WeftPort *s, int via)
{
    WEFT_EACH(s, h) {
        if (h->traps && h->traps(s, via)) {
            return true;
        }
    }
    return false;
}

bool weft_hook_dead(WeftPort *s, int via)
{
    WEFT_EACH(s, h) {
        if (h->dead && h->dead(s, via)) {
            return true;
        }
    }
    return false;
}

void weft_hook_drop(WeftPort *s, unsigned slot)
{
    WEFT_EACH(s, h) {
        if (h->drop) {
            h->drop(s, slot);
        }
    }
}

bool weft_hook_closed(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->closed && h->closed(s)) {
            return true;
        }
    }
    return false;
}

bool weft_hook_idle(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->idle && h->idle(s)) {
            return true;
        }
    }
    return false;
}

unsigned weft_hook_step(WeftPort *s, unsigned slot, uint64_t off, bool write)
{
    unsigned code = WEFT_DMA_ST_OK;

    WEFT_EACH(s, h) {
        if (h->step) {
            code = h->step(s, slot, off, write);
        }
        if (code != WEFT_DMA_ST_OK) {
            break;
        }
    }
    return code;
}

WeftVerdict weft_hook_post(WeftPort *s, unsigned n, unsigned slot,
                           uint64_t off, const void *buf, uint32_t len)
{
    WeftVerdict verdict = WEFT_PASS;

    WEFT_EACH(s, h) {
        if (h->post) {
            verdict = h->post(s, n, slot, off, buf, len);
        }
        if (verdict != WEFT_PASS) {
            break;
        }
    }
    return verdict;
}

void weft_hook_push(WeftPort *s, unsigned n)
{
    WEFT_EACH(s, h) {
        if (h->push) {
            h->push(s, n);
        }
    }
}

void weft_hook_local(WeftPort *s, unsigned n, uint64_t addr, uint64_t len,
                     bool write)
{
    WEFT_EACH(s, h) {
        if (h->local) {
            h->local(s, n, addr, len, write);
        }
    }
}

void weft_hook_remote(WeftPort *s, unsigned n, int via, uint64_t at,
                      uint64_t len, bool write)
{
    WEFT_EACH(s, h) {
        if (h->remote) {
            h->remote(s, n, via, at, len, write);
        }
    }
}

bool weft_hook_deaf(WeftPort *s, unsigned link)
{
    WEFT_EACH(s, h) {
        if (h->deaf && h->deaf(s, link)) {
            return true;
        }
    }
    return false;
}

uint32_t weft_hook_delay(WeftPort *s, unsigned what, unsigned function,
                         uint32_t bits)
{
    WEFT_EACH(s, h) {
        if (h->delay) {
            bits = h->delay(s, what, function, bits);
        }
    }
    return bits;
}

void weft_hook_prompt(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->prompt) {
            h->prompt(s);
        }
    }
}

void weft_hook_link_down(WeftPort *s, unsigned link)
{
    WEFT_EACH(s, h) {
        if (h->link_down) {
            h->link_down(s, link);
        }
    }
}

bool weft_hook_interrupt(WeftPort *s, uint32_t vectors)
{
    WEFT_EACH(s, h) {
        if (h->interrupt && h->interrupt(s, vectors)) {
            return true;
        }
    }
    return false;
}

bool weft_hook_put_off(WeftPort *s)
{
    WEFT_EACH(s, h) {
        if (h->put_off && h->put_off(s)) {
            return true;
        }
    }
    return false;
}
