/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * weft-root-port: QEMU's pcie-root-port, which besides carries payloads of
 * more than 128 bytes.
 *
 * QEMU counts no TLPs and so says of its root ports that they carry the least
 * there is, 128 bytes, and a port below one of those is never allowed more.
 * Here the capability says 256 bytes, as root ports of servers do, and Device
 * Control can be written. After a reset it is 128 all the same: firmware or
 * the kernel raises it on both ends of the link, as on a real machine.
 */
#include "qemu/osdep.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_port.h"
#include "weft_compat.h"

#define TYPE_WEFT_ROOT_PORT     "weft-root-port"

/* The field of Device Capabilities: 256 bytes. */
#define WEFT_ROOT_MPSS          1

typedef struct WeftRootClass {
    PCIERootPortClass parent_class;
    DeviceRealize parent_realize;
    ResettablePhases parent_phases;
} WeftRootClass;

DECLARE_CLASS_CHECKERS(WeftRootClass, WEFT_ROOT, TYPE_WEFT_ROOT_PORT)

static void weft_root_realize(DeviceState *dev, Error **errp)
{
    PCIDevice *d = PCI_DEVICE(dev);
    Error *err = NULL;

    WEFT_ROOT_GET_CLASS(dev)->parent_realize(dev, &err);
    if (err) {
        error_propagate(errp, err);
        return;
    }
    pci_long_test_and_set_mask(d->config + d->exp.exp_cap + PCI_EXP_DEVCAP,
                               WEFT_ROOT_MPSS);
    pci_word_test_and_set_mask(d->wmask + d->exp.exp_cap + PCI_EXP_DEVCTL,
                               PCI_EXP_DEVCTL_PAYLOAD);
}

static void weft_root_reset_hold(Object *obj, ResetType type)
{
    PCIDevice *d = PCI_DEVICE(obj);

    WEFT_ROOT_GET_CLASS(obj)->parent_phases.hold(obj, type);
    pci_word_test_and_clear_mask(d->config + d->exp.exp_cap + PCI_EXP_DEVCTL,
                                 PCI_EXP_DEVCTL_PAYLOAD);
}

static void weft_root_class_init(ObjectClass *klass, WEFT_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    WeftRootClass *wc = WEFT_ROOT_CLASS(klass);

    dc->desc = "PCI Express root port for payloads of 256 bytes";
    device_class_set_parent_realize(dc, weft_root_realize,
                                    &wc->parent_realize);
    resettable_class_set_parent_phases(RESETTABLE_CLASS(klass), NULL,
                                       weft_root_reset_hold, NULL,
                                       &wc->parent_phases);
}

static const TypeInfo weft_root_info = {
    .name = TYPE_WEFT_ROOT_PORT,
    .parent = "pcie-root-port",
    .class_size = sizeof(WeftRootClass),
    .class_init = weft_root_class_init,
};

static void weft_root_register_types(void)
{
    type_register_static(&weft_root_info);
}

type_init(weft_root_register_types)
