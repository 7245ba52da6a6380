/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the reset of a function, and with a PF of its VFs.
 */
#include "qemu/osdep.h"
#include "trace.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_event.h"
#include "weft_function.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_mbox.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_session.h"
#include "weft_slot.h"

/* @s, a VF, has been reset: its messages are void, its quota stays. */
static void weft_vf_was_reset(WeftPort *s)
{
    unsigned n = s->vf_index;

    s->pf->vf[n].down = (WeftPairBox) { };
    s->pf->vf[n].up = (WeftPairBox) { };
    weft_event_vf(s->pf, n, WEFT_VF_RESET);
}

/* A PF is reset: its VFs with it, and they have nothing any more. */
static void weft_vfs_reset(WeftPort *pf)
{
    memset(pf->vf, 0, sizeof(pf->vf));
    for (unsigned n = 0; n < WEFT_VFS; n++) {
        WeftPort *vf = pf->vf_port[n];

        if (vf) {
            weft_reset(vf);
        }
    }
    memset(pf->vf, 0, sizeof(pf->vf));
    pf->vf_pending = 0;
}

/*
 * CTRL.RESET, function level reset and system reset. Links first, so that
 * apertures know what may still reach them. Those of the endpoint alone: of
 * another function a reset touches that function only, and a PF's its VFs.
 */
void weft_reset(WeftPort *s)
{
    trace_weft_reset(s->ep->node, s->number);
    /* Nothing of what follows is to interrupt. */
    s->event_mask = UINT32_MAX;
    weft_hook_reset(s);
    weft_dma_reset(s);
    if (s == s->ep) {
        weft_link_reset(s);
        weft_remotes_drop(s);
        weft_routes_reset(s);
        weft_config_reset(s);
    }
    if (s == s->pf) {
        weft_vfs_reset(s);
    }
    weft_inbound_reset(s);
    weft_slots_reset(s);
    weft_mbox_reset(s);
    weft_doorbell_reset(s);
    weft_event_reset(s);
    s->lid = 0;
    s->ctrl = 0;
    s->scratch = 0;
    weft_session_reset(s);
    weft_remotes_update(s);
    if (s != s->pf) {
        weft_vf_was_reset(s);
    }
}
