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

/* VMADDR_CID_ANY: the host has none. */
u32 vs_cid_of(u64 hwid)
{
	u32 cid = (u32)hwid + CID_BASE;

	return hwid && cid >= CID_BASE ? cid : VMADDR_CID_ANY;
}

/* Returns the hardware id of the host of a CID, if the port reaches it, or 0. Lock held. */
static u64 find_host(struct vport *port, u32 cid)
{
	struct weft_port_attr attr;
	size_t count, n;

	weft_query_port(port->port, &attr);
	if (vs_cid_of(attr.hwid) == cid)
		return attr.hwid;
	count = min_t(size_t, weft_query_hosts(port->port, hosts, MAX_HOSTS), MAX_HOSTS);
	for (n = 0; n < count; n++)
		if (vs_cid_of(hosts[n]) == cid)
			return hosts[n];
	return 0;
}

/* Returns a port that reaches the host of a CID, to be given back by vs_put_port(). */
struct vport *vs_get_host(u32 cid, u64 *hwid)
{
	struct vport *port, *found = NULL;

	mutex_lock(&vs_lock);
	list_for_each_entry(port, &vs_ports, list) {
		*hwid = find_host(port, cid);
		if (*hwid) {
			refcount_inc(&port->users);
			found = port;
			break;
		}
	}
	mutex_unlock(&vs_lock);
	return found;
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
