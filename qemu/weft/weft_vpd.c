/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: vital product data (PCI 3.0, appendix I), read-only.
 *
 * V0 names the blade the port sits on, V1 says whether sockets are supported.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/range.h"
#include "qapi/error.h"
#include "weft_function.h"
#include "weft_port.h"

#define VPD_TAG_ID              0x82
#define VPD_TAG_RO              0x90
#define VPD_TAG_END             0x78
#define VPD_FLAG                0x8000
/* Longest value of a keyword: five of them and the rest fit VPD_BYTES. */
#define VPD_MAX_VALUE           128

static uint8_t *weft_vpd_keyword(uint8_t *p, const char *key,
                                 const char *value)
{
    size_t len = strlen(value);

    memcpy(p, key, 2);
    p[2] = len;
    memcpy(p + 3, value, len);
    return p + 3 + len;
}

static bool weft_vpd_check(const char *property, const char *value,
                           Error **errp)
{
    if (strlen(value) > VPD_MAX_VALUE) {
        error_setg(errp, "weft-port: property '%s' is longer than %d bytes",
                   property, VPD_MAX_VALUE);
        return false;
    }
    return true;
}

bool weft_vpd_init(WeftPort *s, Error **errp)
{
    static const char name[] = "Weft port";
    PCIDevice *d = PCI_DEVICE(s);
    uint8_t *p = s->vpd, *body, sum = 0;

    if (!weft_vpd_check("part", s->part, errp) ||
        !weft_vpd_check("serial", s->serial, errp) ||
        !weft_vpd_check("blade", s->blade, errp) ||
        !weft_vpd_check("sockets", s->sockets, errp)) {
        return false;
    }
    if (pci_add_capability(d, PCI_CAP_ID_VPD, WEFT_CFG_VPD, PCI_CAP_VPD_SIZEOF,
                           errp) < 0) {
        return false;
    }
    pci_set_word(d->wmask + WEFT_CFG_VPD + PCI_VPD_ADDR, 0xffff);

    *p++ = VPD_TAG_ID;
    stw_le_p(p, sizeof(name) - 1);
    memcpy(p + 2, name, sizeof(name) - 1);
    p += 2 + sizeof(name) - 1;

    *p++ = VPD_TAG_RO;
    body = p + 2;
    p = weft_vpd_keyword(body, "PN", s->part);
    p = weft_vpd_keyword(p, "SN", s->serial);
    p = weft_vpd_keyword(p, "V0", s->blade);
    p = weft_vpd_keyword(p, "V1", s->sockets);
    p = weft_vpd_keyword(p, "RV", " ");
    stw_le_p(body - 2, p - body);
    p--;
    for (uint8_t *q = s->vpd; q < p; q++) {
        sum += *q;
    }
    *p++ = -sum;
    *p++ = VPD_TAG_END;
    return true;
}

/*
 * Software writes the address with the flag clear and waits until it is set:
 * the data are there. A write (flag set) ends the same way, without effect.
 */
void weft_vpd_config_write(WeftPort *s, uint32_t addr, int len)
{
    uint8_t *cap = PCI_DEVICE(s)->config + WEFT_CFG_VPD;
    uint16_t word;
    unsigned offset;

    if (!ranges_overlap(addr, len, WEFT_CFG_VPD + PCI_VPD_ADDR + 1, 1)) {
        return;
    }
    word = pci_get_word(cap + PCI_VPD_ADDR);
    offset = word & ~VPD_FLAG & ~3;
    if (!(word & VPD_FLAG)) {
        pci_set_long(cap + PCI_VPD_DATA, offset < sizeof(s->vpd) ?
                     ldl_le_p(s->vpd + offset) : 0);
    }
    pci_set_word(cap + PCI_VPD_ADDR, word ^ VPD_FLAG);
}
