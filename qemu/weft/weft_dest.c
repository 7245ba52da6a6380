/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: where destinations lead, by links and by routes, and which links a
 * function may use.
 */
#include "qemu/osdep.h"
#include "weft_dest.h"
#include "weft_port.h"

#define WEFT_ALL_LINKS          ((1u << WEFT_MAX_LINKS) - 1)

/* The links that lead anywhere for this function, if they are up. */
uint32_t weft_dest_links(const WeftPort *s)
{
    if (s == s->ep) {
        return WEFT_ALL_LINKS;
    }
    return s->ctrl & WEFT_CTRL_ENABLE ? s->quota->links & WEFT_ALL_LINKS : 0;
}

bool weft_dest_link_up(const WeftPort *s, unsigned link)
{
    return link < WEFT_MAX_LINKS && s->link[link].up &&
           (weft_dest_links(s) & BIT(link));
}

/* The same of a link to a switch. */
bool weft_dest_switch_up(const WeftPort *s, unsigned link)
{
    return link < WEFT_MAX_LINKS && s->link[link].switch_up &&
           (weft_dest_links(s) & BIT(link));
}

/* Where a destination of type LINK leads; false: nowhere. */
bool weft_dest_link(const WeftPort *s, uint32_t dest, unsigned *link,
                    unsigned *function)
{
    *link = dest & WEFT_DEST_WHERE;
    *function = s->number;
    if (dest & WEFT_DEST_FUNCTION) {
        *function = (dest & WEFT_DEST_NUMBER) >> ctz32(WEFT_DEST_NUMBER);
    }
    return weft_dest_link_up(s, *link) && *function < WEFT_FUNCTIONS &&
           (s->quota->peers & BIT_ULL(*function));
}

/* The remote of @ep that is to lead to @lid, or NULL. */
WeftRemote *weft_dest_find(WeftPort *ep, uint32_t lid)
{
    for (unsigned n = 0; n < WEFT_FAB_REMOTES; n++) {
        WeftRemote *r = &ep->remote[n];

        if (r->state == WEFT_REMOTE_WANTED && r->lid == lid) {
            return r;
        }
    }
    return NULL;
}

/*
 * Where a destination of type LID leads; false: nowhere, and no port is to be
 * told. The remote need not be up. Which link a route takes is not the
 * function's choice: it must be allowed all.
 */
bool weft_dest_remote(const WeftPort *s, uint32_t dest, unsigned *link,
                      unsigned *function)
{
    const WeftRemote *r;

    *function = s->number;
    if (dest & WEFT_DEST_FUNCTION) {
        *function = (dest & WEFT_DEST_NUMBER) >> ctz32(WEFT_DEST_NUMBER);
    }
    if ((dest & WEFT_DEST_TYPE) != WEFT_DEST_LID ||
        *function >= WEFT_FUNCTIONS ||
        !(s->quota->peers & BIT_ULL(*function)) ||
        ctpop32(weft_dest_links(s)) != WEFT_MAX_LINKS) {
        return false;
    }
    r = weft_dest_find(s->ep, dest & WEFT_DEST_WHERE);
    if (!r) {
        return false;
    }
    *link = WEFT_MAX_LINKS + (r - s->ep->remote);
    return true;
}

/* HOPS and STOP of SLOT_STATUS. */
uint32_t weft_dest_status(const WeftPort *s, uint32_t dest)
{
    unsigned link, function;
    const WeftRemote *r;

    if (!weft_dest_remote(s, dest, &link, &function)) {
        return 0;
    }
    r = &s->ep->remote[link - WEFT_MAX_LINKS];
    return r->hops << ctz32(WEFT_SLOT_HOPS) | r->why << ctz32(WEFT_SLOT_STOP);
}

/* SLOT_TAKEN */
uint32_t weft_dest_taken(const WeftPort *s, uint32_t dest)
{
    unsigned link, function;

    if (!weft_dest_remote(s, dest, &link, &function)) {
        return 0;
    }
    return s->ep->remote[link - WEFT_MAX_LINKS].taken;
}
