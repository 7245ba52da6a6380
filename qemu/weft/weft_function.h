/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the functions of an endpoint, as PCI functions.
 */
#ifndef WEFT_FUNCTION_H
#define WEFT_FUNCTION_H

#include "weft_port.h"

/* Capabilities. */
#define WEFT_CFG_PM             0x60
#define WEFT_CFG_VPD            0x70
#define WEFT_CFG_EXP            0xa0
#define WEFT_CFG_AER            0x100
#define WEFT_CFG_ARI            0x150
#define WEFT_CFG_SERIAL         0x160
#define WEFT_CFG_ACS            0x170
#define WEFT_CFG_SRIOV          0x200

/* Routing ids of the VFs: those of two PFs side by side alternate. */
#define WEFT_VF_OFFSET          16
#define WEFT_VF_ROUTING_STRIDE  2

/* weft_function.c */
bool weft_function_init(WeftPort *s, Error **errp);
void weft_function_join(WeftPort *s);
void weft_function_leave(WeftPort *s);

/* weft_pci.c */
bool weft_pci_open(WeftPort *s, Error **errp);
void weft_pci_close(WeftPort *s);
void weft_pci_acs(PCIDevice *d);

/* weft_vpd.c */
bool weft_vpd_init(WeftPort *s, Error **errp);
void weft_vpd_config_write(WeftPort *s, uint32_t addr, int len);

/* weft_reset.c */
void weft_reset(WeftPort *s);

/* weft_regs.c */
extern const MemoryRegionOps weft_regs_ops;

#endif /* WEFT_FUNCTION_H */
