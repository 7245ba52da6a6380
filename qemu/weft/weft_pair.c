/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the mailbox between a PF and one of its VFs.
 *
 * Of use to a VF that has been given away: its driver has no other way to ask
 * the PF for anything. One message each way is held until it is taken. The
 * registers are the same at both ends; what one sends the other receives.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "weft_event.h"
#include "weft_port.h"
#include "weft_vf.h"

static bool weft_pair_word(unsigned reg, unsigned base)
{
    return reg >= base && reg - base < WEFT_PAIR_BYTES;
}

/* @tx: the way out, @rx: the way in, from where @reg is read. */
uint32_t weft_pair_read(const WeftPairBox *tx, const WeftPairBox *rx,
                        unsigned reg)
{
    if (weft_pair_word(reg, WEFT_PAIR_TX)) {
        return ldl_le_p(tx->tx + reg - WEFT_PAIR_TX);
    }
    if (weft_pair_word(reg, WEFT_PAIR_RX)) {
        return rx->len ? ldl_le_p(rx->sent + reg - WEFT_PAIR_RX) : 0;
    }
    if (reg == WEFT_PAIR_STATUS) {
        return (rx->len ? WEFT_PAIR_VALID | rx->len : 0) |
               (tx->len ? WEFT_PAIR_BUSY : 0) |
               (tx->failed ? WEFT_PAIR_FAILED : 0);
    }
    return 0;
}

static bool weft_pair_send(WeftPairBox *tx, unsigned len)
{
    tx->failed = tx->len || !len || len > WEFT_PAIR_BYTES;
    if (tx->failed) {
        return false;
    }
    memset(tx->sent, 0, sizeof(tx->sent));
    memcpy(tx->sent, tx->tx, len);
    tx->len = len;
    return true;
}

/* True: a message has been sent. @taken: one has been taken. */
bool weft_pair_write(WeftPairBox *tx, WeftPairBox *rx, unsigned reg,
                     uint32_t val, bool *taken)
{
    *taken = false;
    if (weft_pair_word(reg, WEFT_PAIR_TX)) {
        stl_le_p(tx->tx + reg - WEFT_PAIR_TX, val);
        return false;
    }
    if (reg != WEFT_PAIR_CTRL) {
        return false;
    }
    if ((val & WEFT_PAIR_TAKE) && rx->len) {
        rx->len = 0;
        *taken = true;
    }
    return (val & WEFT_PAIR_SEND) && weft_pair_send(tx, val & WEFT_PAIR_LEN);
}

/* ---- the VF's end ----------------------------------------------------- */

uint32_t weft_pair_vf_read(WeftPort *s, unsigned reg)
{
    const WeftVf *vf = weft_vf_of(s);

    return vf ? weft_pair_read(&vf->up, &vf->down, reg) : 0;
}

void weft_pair_vf_write(WeftPort *s, unsigned reg, uint32_t val)
{
    WeftVf *vf = weft_vf_of(s);
    bool taken;

    if (!vf) {
        return;
    }
    if (weft_pair_write(&vf->up, &vf->down, reg, val, &taken)) {
        weft_event_vf(s->pf, vf - s->pf->vf, WEFT_VF_RX);
    }
    if (taken) {
        weft_event_vf(s->pf, vf - s->pf->vf, WEFT_VF_TAKEN);
    }
}
