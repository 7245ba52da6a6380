// SPDX-License-Identifier: GPL-2.0
/*
 * The ports that are there, and the hosts that they reach; the module.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include "vsock.h"

struct workqueue_struct *vs_queue;
/* Of the list, and of hosts. */
static DEFINE_MUTEX(vs_lock);
static LIST_HEAD(vs_ports);
static u64 hosts[MAX_HOSTS];

/* ---- addresses -------------------------------------------------------------- */

/*
 * The high bits of a hardware id, which tell the functions of a port apart, are added to the low
 * ones as in the Ethernet address of the port (rust/proto/ethernet.rs): the CID follows from that
 * address. VMADDR_CID_ANY: the port has none.
 */
u32 vs_cid_of(u64 hwid)
{
	u64 bits = (hwid & GENMASK_ULL(45, 0)) ^ (hwid >> 46) << 28;
	u32 cid = ((u32)bits ^ (u32)(bits >> 32) << 18) + CID_BASE;

	return bits && cid >= CID_BASE ? cid : VMADDR_CID_ANY;
}

/*
 * Notes a port of a fabric, if it has the CID. Returns false if another one has it, too: then it
 * would be luck which of them is reached.
 */
static bool note(u64 *found, u64 hwid, u32 cid)
{
	if (vs_cid_of(hwid) != cid || *found == hwid)
		return true;
	if (*found) {
		pr_warn_ratelimited("%#llx and %#llx have the CID %u: neither is reached by it\n",
				    *found, hwid, cid);
		return false;
	}
	*found = hwid;
	return true;
}

/* As note(), of all that a port reaches. Lock held. */
static bool note_hosts(struct vport *port, u64 *found, u32 cid)
{
	struct weft_port_attr attr;
	size_t count, n;

	weft_query_port(port->port, &attr);
	if (!note(found, attr.hwid, cid))
		return false;
	count = min_t(size_t, weft_query_hosts(port->port, hosts, MAX_HOSTS), MAX_HOSTS);
	for (n = 0; n < count; n++)
		if (!note(found, hosts[n], cid))
			return false;
	return true;
}

/*
 * Returns a port that reaches that of a CID, to be given back by vs_put_port(); NULL: there is
 * none, or more than one has the CID.
 */
struct vport *vs_get_host(u32 cid, u64 *hwid)
{
	struct vport *port, *by = NULL;

	if (cid == VMADDR_CID_ANY)
		return NULL;
	*hwid = 0;
	mutex_lock(&vs_lock);
	list_for_each_entry(port, &vs_ports, list) {
		if (!note_hosts(port, hwid, cid)) {
			by = NULL;
			break;
		}
		if (*hwid && !by)
			by = port;
	}
	if (by)
		refcount_inc(&by->users);
	mutex_unlock(&vs_lock);
	return by;
}

/*
 * Returns whether no other port that is known has the CID of this one. The port itself, which
 * speaks by a link, need not be known yet.
 */
bool vs_is_alone(u64 hwid)
{
	u32 cid = vs_cid_of(hwid);
	struct vport *port;
	bool alone = cid != VMADDR_CID_ANY;

	mutex_lock(&vs_lock);
	list_for_each_entry(port, &vs_ports, list)
		alone = alone && note_hosts(port, &hwid, cid);
	mutex_unlock(&vs_lock);
	return alone;
}

void vs_put_port(struct vport *port)
{
	if (refcount_dec_and_test(&port->users))
		wake_up_var(&port->users);
}

u32 vs_local_cid(void)
{
	u32 cid = VMADDR_CID_ANY;
	struct weft_port_attr attr;
	struct vport *port;

	mutex_lock(&vs_lock);
	port = list_first_entry_or_null(&vs_ports, struct vport, list);
	if (port) {
		weft_query_port(port->port, &attr);
		cid = vs_cid_of(attr.hwid);
	}
	mutex_unlock(&vs_lock);
	return cid;
}

bool vs_has_cid(struct vsock_sock *vsk, u32 cid)
{
	u64 hwid;
	struct vport *port = vs_get_host(cid, &hwid);

	if (port)
		vs_put_port(port);
	return port;
}

/* ---- ports ----------------------------------------------------------------------------- */

/* What a listener calls. */
static void vs_kick(void *work, unsigned int events)
{
	queue_work(vs_queue, work);
}

static void add(struct weft_client *client, struct weft_port *at)
{
	struct vport *port = kzalloc(sizeof(*port), GFP_KERNEL);
	struct weft_notifier notifier;

	if (!port)
		return;
	port->port = at;
	refcount_set(&port->users, 1);
	INIT_WORK(&port->accepting, vs_port_work);
	disable_work(&port->accepting);
	notifier = (struct weft_notifier){ .notify = vs_kick, .context = &port->accepting };
	port->listener = weft_socket_listen(at, SERVICE, BACKLOG, &notifier);
	if (IS_ERR(port->listener)) {
		pr_err("cannot listen: %pe\n", port->listener);
		kfree(port);
		return;
	}
	mutex_lock(&vs_lock);
	list_add_tail(&port->list, &vs_ports);
	mutex_unlock(&vs_lock);
	enable_and_queue_work(vs_queue, &port->accepting);
}

static void remove(struct weft_client *client, struct weft_port *at)
{
	struct vport *port = NULL, *each;

	mutex_lock(&vs_lock);
	list_for_each_entry(each, &vs_ports, list)
		if (each->port == at)
			port = each;
	if (port)
		list_del(&port->list);
	mutex_unlock(&vs_lock);
	if (!port)
		return;
	disable_work_sync(&port->accepting);
	weft_socket_listener_close(port->listener);
	/* Sockets learn from their links that the port goes. */
	vs_put_port(port);
	wait_var_event(&port->users, !refcount_read(&port->users));
	kfree(port);
}

static struct weft_client weft_vsock_client = {
	.name = "weft_vsock",
	.add = add,
	.remove = remove,
};

static int __init weft_vsock_init(void)
{
	int err;

	vs_queue = alloc_workqueue("weft_vsock", WQ_UNBOUND, 0);
	if (!vs_queue)
		return -ENOMEM;
	weft_register_client(&weft_vsock_client);
	err = vsock_core_register(&vs_transport, VSOCK_TRANSPORT_F_G2H);
	if (err) {
		weft_unregister_client(&weft_vsock_client);
		destroy_workqueue(vs_queue);
	}
	return err;
}

/* There is no socket any more: each has a reference to the module. */
static void __exit weft_vsock_exit(void)
{
	vsock_core_unregister(&vs_transport);
	weft_unregister_client(&weft_vsock_client);
	destroy_workqueue(vs_queue);
}

module_init(weft_vsock_init);
module_exit(weft_vsock_exit);
MODULE_DESCRIPTION("AF_VSOCK between hosts that are joined by Weft");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("WEFT");
/* No MODULE_ALIAS_NETPROTO(PF_VSOCK): any socket(AF_VSOCK) would load it. */
