/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the TLPs that the DMA engine's transfers take, in traced mode, and
 * the sizes that are negotiated for them.
 */
#include "qemu/osdep.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_sriov.h"
#include "weft_dma.h"
#include "weft_hook.h"
#include "weft_mode.h"
#include "weft_port.h"

/* ---- negotiated sizes ------------------------------------------------ */

/* The most that the link to the host can carry: 512 bytes. */
#define WEFT_DMA_MPSS           2
#define WEFT_DMA_MRRS_RESET     2

/* ---- negotiated sizes ------------------------------------------------ */

/* Device Control; that of a virtual function is its physical function's. */
static uint16_t weft_dma_devctl(WeftPort *s)
{
    PCIDevice *d = PCI_DEVICE(s);

    if (pci_is_vf(d)) {
        d = pcie_sriov_get_pf(d);
    }
    return pci_get_word(d->config + d->exp.exp_cap + PCI_EXP_DEVCTL);
}

static unsigned weft_dma_payload(WeftPort *s)
{
    unsigned mps = (weft_dma_devctl(s) & PCI_EXP_DEVCTL_PAYLOAD) >>
                   ctz32(PCI_EXP_DEVCTL_PAYLOAD);

    return 128u << MIN(mps, WEFT_DMA_MPSS);
}

static unsigned weft_dma_request(WeftPort *s)
{
    unsigned mrrs = (weft_dma_devctl(s) & PCI_EXP_DEVCTL_READRQ) >>
                    ctz32(PCI_EXP_DEVCTL_READRQ);

    return 128u << MIN(mrrs, 5);
}

/* The function's PCI Express capability says what can be negotiated. */
void weft_dma_config_init(WeftPort *s)
{
    PCIDevice *d = PCI_DEVICE(s);
    uint8_t *cap = d->config + d->exp.exp_cap;

    if (pci_is_vf(d)) {
        return;
    }
    pci_long_test_and_set_mask(cap + PCI_EXP_DEVCAP, WEFT_DMA_MPSS);
    pci_word_test_and_set_mask(d->wmask + d->exp.exp_cap + PCI_EXP_DEVCTL,
                               PCI_EXP_DEVCTL_PAYLOAD |
                               PCI_EXP_DEVCTL_READRQ);
    weft_dma_config_reset(s);
}

/* A function level reset leaves the payload size alone, as PCIe has it. */
void weft_dma_config_reset(WeftPort *s)
{
    PCIDevice *d = PCI_DEVICE(s);
    uint8_t *at = d->config + d->exp.exp_cap + PCI_EXP_DEVCTL;
    uint16_t ctl = pci_get_word(at);

    if (pci_is_vf(d)) {
        return;
    }
    if (!(ctl & PCI_EXP_DEVCTL_BCR_FLR)) {
        ctl &= ~PCI_EXP_DEVCTL_PAYLOAD;
    }
    ctl &= ~PCI_EXP_DEVCTL_READRQ;
    ctl |= WEFT_DMA_MRRS_RESET << ctz32(PCI_EXP_DEVCTL_READRQ);
    pci_set_word(at, ctl);
}

/* ---- TLPs ------------------------------------------------------------ */

/*
 * A transfer is cut at every multiple of the size that limits it. Such sizes
 * divide 4 KiB, so none of the parts crosses that either.
 */
static uint64_t weft_dma_parts(uint64_t at, uint64_t len, unsigned size)
{
    return (at + len - 1) / size - at / size + 1;
}

static uint64_t weft_dma_completions(WeftPort *s, uint64_t at, uint64_t len)
{
    return weft_dma_parts(at, len, MIN(weft_dma_payload(s),
                                       weft_dma_request(s)));
}

static void weft_dma_tlp_local(WeftPort *s, unsigned n, uint64_t addr,
                               uint64_t len, bool write)
{
    uint64_t *counter = s->dma.channel[n].counter;

    if (!s->traced) {
        return;
    }
    if (write) {
        counter[WEFT_DMA_CNT_HOST_MWR] +=
            weft_dma_parts(addr, len, weft_dma_payload(s));
    } else {
        counter[WEFT_DMA_CNT_HOST_MRD] +=
            weft_dma_parts(addr, len, weft_dma_request(s));
        counter[WEFT_DMA_CNT_HOST_CPL] += weft_dma_completions(s, addr, len);
    }
}

static void weft_dma_tlp_remote(WeftPort *s, unsigned n, int via, uint64_t at,
                                uint64_t len, bool write)
{
    uint64_t *counter = s->dma.channel[n].counter;
    uint64_t tlps;

    if (!s->traced) {
        return;
    }
    if (write) {
        tlps = weft_dma_parts(at, len, weft_dma_payload(s));
        counter[WEFT_DMA_CNT_MWR] += tlps;
    } else {
        tlps = weft_dma_parts(at, len, weft_dma_request(s));
        counter[WEFT_DMA_CNT_MRD] += tlps;
        counter[WEFT_DMA_CNT_CPL] += weft_dma_completions(s, at, len);
    }
    weft_trace_burst(s, via, tlps, len, write);
}

const WeftHooks weft_dma_tlp_hooks = {
    .local = weft_dma_tlp_local,
    .remote = weft_dma_tlp_remote,
};
