/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: the PCI Express function, its configuration space and its life.
 */
#include "qemu/osdep.h"
#include "qemu/memfd.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "exec/cpu-common.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_aer.h"
#include "migration/vmstate.h"
#include "weft_aperture.h"
#include "weft_dma.h"
#include "weft_doorbell.h"
#include "weft_fab.h"
#include "weft_fence.h"
#include "weft_function.h"
#include "weft_hook.h"
#include "weft_inbound.h"
#include "weft_link.h"
#include "weft_mode.h"
#include "weft_port.h"
#include "weft_route.h"
#include "weft_session.h"
#include "weft_slot.h"
#include "weft_vf.h"

static const char *const weft_counter_name[WEFT_COUNTERS] = {
    [WEFT_CNT_TX_MWR] = "tx-mwr",
    [WEFT_CNT_TX_MWR_BYTES] = "tx-mwr-bytes",
    [WEFT_CNT_TX_MRD] = "tx-mrd",
    [WEFT_CNT_TX_MRD_BYTES] = "tx-mrd-bytes",
    [WEFT_CNT_TX_DB] = "tx-db",
    [WEFT_CNT_TX_MSG] = "tx-msg",
    [WEFT_CNT_RX_DB] = "rx-db",
    [WEFT_CNT_RX_MSG] = "rx-msg",
    [WEFT_CNT_OUT_DROPPED] = "out-dropped",
    [WEFT_CNT_OUT_ONES] = "out-ones",
    [WEFT_CNT_IN_DENIED] = "in-denied",
    [WEFT_CNT_DB_DENIED] = "db-denied",
    [WEFT_CNT_MSG_DROPPED] = "msg-dropped",
    [WEFT_CNT_IRQS] = "irqs",
    [WEFT_CNT_REMAPS] = "remaps",
    [WEFT_CNT_IN_FAULTS] = "in-faults",
    [WEFT_CNT_ROUTE_DENIED] = "route-denied",
};

/*
 * In this order. Faults are first: what they take away the others never see.
 * What is counted has been sent, even if it arrives later.
 */
static const WeftHooks *const weft_port_hooks[] = {
    &weft_fault_hooks,
    &weft_iommu_hooks,
    &weft_trace_hooks,
    &weft_dma_tlp_hooks,
    &weft_adversary_hooks,
    &weft_posted_hooks,
    &weft_late_hooks,
    NULL
};

/* An unmap takes away what inbound entries have open there. */
static const WeftIommuOps weft_port_unmaps = {
    .unmapped = weft_inbound_unmapped,
    .held = weft_inbound_held,
    .late = weft_inbound_late,
    .settle = weft_linger_settle,
};

/* ---- reset ----------------------------------------------------------- */

static void weft_port_reset_hold(Object *obj, ResetType type)
{
    WeftPort *s = WEFT_PORT(obj);

    /* The bus clears the command register after this. */
    s->bus_master = false;
    weft_dma_config_reset(s);
    weft_reset(s);
}

/* ---- configuration space --------------------------------------------- */

static uint32_t weft_port_config_read(PCIDevice *d, uint32_t addr, int len)
{
    if (weft_hook_silent(WEFT_PORT(d))) {
        return UINT32_MAX >> (32 - 8 * len);
    }
    return pci_default_read_config(d, addr, len);
}

static void weft_port_config_write(PCIDevice *d, uint32_t addr, uint32_t val,
                                   int len)
{
    WeftPort *s = WEFT_PORT(d);
    bool master;

    if (weft_hook_silent(s)) {
        return;
    }
    pci_default_write_config(d, addr, val, len);
    pcie_aer_write_config(d, addr, val, len);
    pcie_cap_flr_write_config(d, addr, val, len);
    if (s == s->pf) {
        weft_vpd_config_write(s, addr, len);
    }

    master = pci_get_word(d->config + PCI_COMMAND) & PCI_COMMAND_MASTER;
    if (master != s->bus_master) {
        s->bus_master = master;
        weft_inbound_refresh(s);
    }
}

/* ---- realize --------------------------------------------------------- */

static bool weft_port_check_slots(const char *property, uint32_t slots,
                                  Error **errp)
{
    if (!is_power_of_2(slots) || slots > WEFT_MAX_SLOTS) {
        error_setg(errp, "weft-port: %s=%" PRIu32 " is not a power of two "
                   "from 1 to %d", property, slots, WEFT_MAX_SLOTS);
        return false;
    }
    return true;
}

static bool weft_port_check(WeftPort *s, Error **errp)
{
    if (!weft_port_check_slots("slots", s->slots, errp) ||
        !weft_port_check_slots("vf-slots", s->vf_slots, errp)) {
        return false;
    }
    if (s->vfs > WEFT_VFS) {
        error_setg(errp, "weft-port: vfs=%" PRIu32 " is more than the %d VFs "
                   "that a PF can have", s->vfs, WEFT_VFS);
        return false;
    }
    if (!is_power_of_2(s->slot_size) || s->slot_size < WEFT_PAGE ||
        s->slot_size > 4 * GiB) {
        error_setg(errp, "weft-port: slot-size=%" PRIu64 " is not a power of "
                   "two from 4 KiB to 4 GiB", s->slot_size);
        return false;
    }
    if (s->dma.channels > WEFT_MAX_DMA) {
        error_setg(errp, "weft-port: dma-channels=%" PRIu32 " is more than %d",
                   s->dma.channels, WEFT_MAX_DMA);
        return false;
    }
    if (qemu_real_host_page_size() != WEFT_PAGE) {
        error_setg(errp, "weft-port: windows need a host with pages of %d "
                   "bytes", WEFT_PAGE);
        return false;
    }
    return true;
}

/* Other hosts map this guest's RAM: it must be a descriptor, and shared. */
static bool weft_port_own_ram(WeftPort *s, Error **errp)
{
    MemoryRegion *mr = MACHINE(qdev_get_machine())->ram;
    int fd = -1;

    if (mr && mr->ram_block && qemu_ram_is_shared(mr->ram_block)) {
        fd = memory_region_get_fd(mr);
    }
    if (fd >= 0) {
        fd = qemu_dup_flags(fd, O_CLOEXEC);
    }
    if (fd < 0) {
        error_setg(errp, "weft-port: the guest's RAM has no descriptor to "
                   "share with its neighbours");
    } else if (weft_ram_open(&s->ram, fd, errp)) {
        s->ram_mr = mr;
        return true;
    }
    error_append_hint(errp, "Start QEMU with -object memory-backend-memfd,"
                      "id=ram,share=on,size=... -machine memory-backend=ram\n");
    return false;
}

static bool weft_port_capabilities(PCIDevice *d, Error **errp)
{
    WeftPort *s = WEFT_PORT(d);
    /* The hardware id may come later, from the fabric; this must not change. */
    uint64_t serial = s->hwid_wanted ? s->hwid_wanted :
                      0x5745465400000000ull | g_str_hash(s->serial);

    if (pci_pm_init(d, WEFT_CFG_PM, errp) < 0 || !weft_vpd_init(s, errp) ||
        pcie_endpoint_cap_init(d, WEFT_CFG_EXP) < 0) {
        return false;
    }
    pci_set_word(d->config + WEFT_CFG_PM + PCI_PM_CTRL,
                 PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(d->wmask + WEFT_CFG_PM + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
    /* Without it DEVCTL is read-only, and errors are not reported. */
    pcie_cap_deverr_init(d);
    pcie_cap_flr_init(d);
    weft_dma_config_init(s);
    if (pcie_aer_init(d, PCI_ERR_VER, WEFT_CFG_AER, PCI_ERR_SIZEOF, errp) < 0) {
        return false;
    }
    pcie_ari_init(d, WEFT_CFG_ARI);
    pcie_dev_ser_num_init(d, WEFT_CFG_SERIAL, serial);
    weft_pci_acs(d);
    return true;
}

static void weft_port_realize(PCIDevice *d, Error **errp)
{
    WeftPort *s = WEFT_PORT(d);

    if (!weft_port_check(s, errp) || !weft_adversary_check(s, errp) ||
        !weft_function_init(s, errp) || !weft_port_own_ram(s, errp)) {
        return;
    }
    if (!weft_doorbell_init(s, errp)) {
        goto ram;
    }
    weft_link_init(s);
    weft_linger_init(s);
    weft_traffic_init(s);
    if (!weft_pci_open(s, errp)) {
        goto link;
    }
    if (!weft_port_capabilities(d, errp)) {
        goto bars;
    }
    weft_hook_moved(s);
    if (!weft_vfs_init(s, errp)) {
        goto bars;
    }
    if (!weft_fab_init(s, &weft_message_ops, errp)) {
        goto vfs;
    }
    weft_function_join(s);
    return;

vfs:
    weft_vfs_exit(s);
bars:
    weft_pci_close(s);
link:
    weft_remotes_drop(s);
    weft_link_exit(s);
    weft_linger_exit(s);
    weft_traffic_exit(s);
    weft_doorbell_exit(s);
ram:
    weft_ram_close(&s->ram);
}

static void weft_port_exit(PCIDevice *d)
{
    WeftPort *s = WEFT_PORT(d);

    weft_function_leave(s);
    weft_fab_exit(s);
    weft_remotes_drop(s);
    weft_link_exit(s);
    weft_linger_exit(s);
    weft_vfs_exit(s);
    weft_pci_close(s);
    weft_traffic_exit(s);
    weft_doorbell_exit(s);
    weft_ram_close(&s->ram);
}

/* ---- type ------------------------------------------------------------ */

static void weft_port_init(Object *obj)
{
    WeftPort *s = WEFT_PORT(obj);

    PCI_DEVICE(obj)->cap_present |= QEMU_PCI_CAP_EXPRESS;
    s->hooks = weft_port_hooks;
    weft_fence_init(s);
    weft_iommu_init(s, &weft_port_unmaps);
    s->ram.fd = -1;
    s->db_fd = -1;
    s->ones_fd = -1;
    s->fab.sock = -1;
    s->node = g_strdup("port");
    s->part = g_strdup("WEFT-PORT");
    s->serial = g_strdup("0");
    s->blade = g_strdup("");
    s->sockets = g_strdup("1");
    for (unsigned n = 0; n < WEFT_COUNTERS; n++) {
        object_property_add_uint64_ptr(obj, weft_counter_name[n],
                                       &s->counter[n], OBJ_PROP_FLAG_READ);
    }
}

static void weft_port_finalize(Object *obj)
{
    WeftPort *s = WEFT_PORT(obj);

    weft_window_finalize(s);
    g_free(s->own_link);
}

static const VMStateDescription weft_port_vmstate = {
    .name = TYPE_WEFT_PORT,
    .unmigratable = 1,
};

static const Property weft_port_properties[] = {
    DEFINE_PROP_STRING("fabric", WeftPort, fabric),
    DEFINE_PROP_STRING("node", WeftPort, node),
    DEFINE_PROP_UINT64("hwid", WeftPort, hwid_wanted, 0),
    DEFINE_PROP_UINT32("slots", WeftPort, slots, 16),
    DEFINE_PROP_SIZE("slot-size", WeftPort, slot_size, 16 * MiB),
    DEFINE_PROP_UINT32("dma-channels", WeftPort, dma.channels, 4),
    DEFINE_PROP_BOOL("traced", WeftPort, traced_always, false),
    DEFINE_PROP_UINT32("unmap-wait", WeftPort, unmap_wait, 2000),
    DEFINE_PROP_UINT32("vfs", WeftPort, vfs, 0),
    DEFINE_PROP_UINT32("vf-slots", WeftPort, vf_slots, 4),
    DEFINE_PROP_BOOL("adversarial", WeftPort, adversary.always, false),
    DEFINE_PROP_UINT64("seed", WeftPort, adversary.seed, 1),
    DEFINE_PROP_STRING("part", WeftPort, part),
    DEFINE_PROP_STRING("serial", WeftPort, serial),
    DEFINE_PROP_STRING("blade", WeftPort, blade),
    DEFINE_PROP_STRING("sockets", WeftPort, sockets),
};

static void weft_port_class_init(ObjectClass *class, WEFT_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = weft_port_realize;
    pc->exit = weft_port_exit;
    pc->config_read = weft_port_config_read;
    pc->config_write = weft_port_config_write;
    pc->vendor_id = WEFT_VENDOR_ID;
    pc->device_id = WEFT_DEVICE_ID_PF;
    pc->class_id = PCI_CLASS_BRIDGE_OTHER;
    RESETTABLE_CLASS(class)->phases.hold = weft_port_reset_hold;
    dc->desc = "Weft port: NTB endpoint of a PCI Express fabric";
    dc->vmsd = &weft_port_vmstate;
    device_class_set_props(dc, weft_port_properties);
    weft_fence_class_init(class);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo weft_port_types[] = {
    {
        .name = TYPE_WEFT_PORT,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(WeftPort),
        .instance_init = weft_port_init,
        .instance_finalize = weft_port_finalize,
        .class_init = weft_port_class_init,
        .interfaces = (WEFT_INTERFACES[]) {
            { INTERFACE_PCIE_DEVICE },
            { },
        },
    },
};

DEFINE_TYPES(weft_port_types)
