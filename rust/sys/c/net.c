// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of the Ethernet interface: tables, and an address for each static inline. What is
 * to be done is in rust/net; rust/sys/net.rs is between.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/irq_work.h>
#include <linux/rtnetlink.h>
#include <linux/virtio_net.h>
#include <net/page_pool/helpers.h>
#include <net/rtnetlink.h>
#include <linux/weft_client.h>
#include "shim.h"

/* The private part of a net_device. */
struct weft_net {
	struct net_device *dev;
	struct list_head list;
	struct weft_port *port;
	/* Of rust/sys/net.rs. */
	void *interface;
	struct weft_net_queue {
		struct napi_struct napi;
		struct irq_work schedule;
		/* Of an interface that is up, if the kernel has any. */
		struct page_pool *pool;
		struct weft_net *net;
		u32 number;
	} queues[WEFT_NET_PEERS];
};

/* The ports that an interface can be made of. */
struct weft_net_port {
	struct list_head list;
	struct weft_port *port;
	u32 minor;
};

/* Set before the first interface is made. */
static const struct weft_net_calls *weft_net_calls;

/* Both with the RTNL held. */
static LIST_HEAD(weft_net_ports);
static LIST_HEAD(weft_nets);

/* ---- what the kernel calls ------------------------------------------------- */

/* Nothing schedules any more. */
static void weft_net_quiet(struct weft_net *net)
{
	int i;

	netif_tx_disable(net->dev);
	for (i = 0; i < WEFT_NET_PEERS; i++) {
		irq_work_sync(&net->queues[i].schedule);
		napi_disable(&net->queues[i].napi);
	}
}

/* After weft_net_quiet(), or before anything was scheduled. */
static void weft_net_free_pools(struct weft_net *net)
{
	int i;

	for (i = 0; i < WEFT_NET_PEERS; i++) {
		page_pool_destroy(net->queues[i].pool);
		net->queues[i].pool = NULL;
	}
}

/* CONFIG_PAGE_POOL is there only if a driver of the kernel selects it. */
static int weft_net_make_pools(struct weft_net *net)
{
	int i;

	for (i = 0; IS_ENABLED(CONFIG_PAGE_POOL) && i < WEFT_NET_PEERS; i++) {
		struct page_pool_params params = {
			.order = WEFT_NET_ORDER,
			.pool_size = WEFT_NET_POOL,
			.nid = NUMA_NO_NODE,
			.napi = &net->queues[i].napi,
			.netdev = net->dev,
			.queue_idx = i,
		};
		struct page_pool *pool = page_pool_create(&params);

		if (IS_ERR(pool)) {
			weft_net_free_pools(net);
			return PTR_ERR(pool);
		}
		net->queues[i].pool = pool;
	}
	return 0;
}

static int weft_net_dev_open(struct net_device *dev)
{
	struct weft_net *net = netdev_priv(dev);
	int i, err;

	err = weft_net_make_pools(net);
	if (err)
		return err;
	for (i = 0; i < WEFT_NET_PEERS; i++)
		napi_enable(&net->queues[i].napi);
	netif_tx_start_all_queues(dev);
	err = weft_net_calls->open(net->interface);
	if (err) {
		weft_net_quiet(net);
		weft_net_free_pools(net);
	}
	return err;
}

static int weft_net_dev_stop(struct net_device *dev)
{
	struct weft_net *net = netdev_priv(dev);

	netif_tx_disable(dev);
	weft_net_calls->stop(net->interface);
	weft_net_quiet(net);
	weft_net_free_pools(net);
	return 0;
}

static netdev_tx_t weft_net_dev_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct weft_net *net = netdev_priv(dev);
	u16 number = skb_get_queue_mapping(skb);
	u32 bytes = skb->len;

	skb_tx_timestamp(skb);
	switch (weft_net_calls->xmit(net->interface, skb, skb->data, number)) {
	case WEFT_NET_SENT:
		dev_sw_netstats_tx_add(dev, 1, bytes);
		dev_consume_skb_any(skb);
		return NETDEV_TX_OK;
	case WEFT_NET_FULL:
		/* The queue is stopped, and woken when the peer has made room. */
		return NETDEV_TX_BUSY;
	default:
		dev_core_stats_tx_dropped_inc(dev);
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
}

static u16 weft_net_dev_select(struct net_device *dev, struct sk_buff *skb,
			       struct net_device *sb_dev)
{
	struct weft_net *net = netdev_priv(dev);

	return weft_net_calls->select(net->interface, skb->data);
}

static int weft_net_dev_poll(struct napi_struct *napi, int budget)
{
	struct weft_net_queue *queue = container_of(napi, struct weft_net_queue, napi);

	return weft_net_calls->poll(queue->net->interface, queue->number, budget);
}

static void weft_net_irq_work(struct irq_work *work)
{
	napi_schedule(&container_of(work, struct weft_net_queue, schedule)->napi);
}

static const struct net_device_ops weft_net_ops = {
	.ndo_open = weft_net_dev_open,
	.ndo_stop = weft_net_dev_stop,
	.ndo_start_xmit = weft_net_dev_xmit,
	.ndo_select_queue = weft_net_dev_select,
	.ndo_validate_addr = eth_validate_addr,
};

static void weft_net_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "weft");
}

static const char weft_net_names[WEFT_NET_COUNTERS][ETH_GSTRING_LEN] = {
	"peers", "connections", "rx_foreign_source", "rx_malformed", "tx_no_peer", "tx_full",
};

static int weft_net_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? WEFT_NET_COUNTERS : -EOPNOTSUPP;
}

static void weft_net_strings(struct net_device *dev, u32 set, u8 *data)
{
	if (set == ETH_SS_STATS)
		memcpy(data, weft_net_names, sizeof(weft_net_names));
}

static void weft_net_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct weft_net *net = netdev_priv(dev);

	weft_net_calls->counters(net->interface, data);
}

static const struct ethtool_ops weft_net_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_ts_info = ethtool_op_get_ts_info,
	.get_drvinfo = weft_net_drvinfo,
	.get_sset_count = weft_net_count,
	.get_strings = weft_net_strings,
	.get_ethtool_stats = weft_net_stats,
};

/* ---- interfaces ------------------------------------------------------------ */

static void weft_net_destructor(struct net_device *dev)
{
	struct weft_net *net = netdev_priv(dev);

	if (net->interface)
		weft_net_calls->free(net->interface);
	net->interface = NULL;
}

static void weft_net_setup(struct net_device *dev)
{
	struct weft_net *net = netdev_priv(dev);
	u32 i;

	ether_setup(dev);
	net->dev = dev;
	for (i = 0; i < WEFT_NET_PEERS; i++) {
		net->queues[i].net = net;
		net->queues[i].number = i;
		netif_napi_add(dev, &net->queues[i].napi, weft_net_dev_poll);
		init_irq_work(&net->queues[i].schedule, weft_net_irq_work);
	}
	dev->needs_free_netdev = true;
	dev->priv_destructor = weft_net_destructor;
	dev->netdev_ops = &weft_net_ops;
	dev->ethtool_ops = &weft_net_ethtool_ops;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = WEFT_NET_MAX_MTU;
	dev->hw_features = NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_TSO | NETIF_F_TSO6 |
			   NETIF_F_TSO_ECN;
	dev->features = dev->hw_features | NETIF_F_HIGHDMA;
}

/* Finds the port that /dev/NAME is of, or any without a name. */
static struct weft_net_port *weft_net_find(const char *name)
{
	struct weft_net_port *port;
	char own[16];

	list_for_each_entry(port, &weft_net_ports, list) {
		snprintf(own, sizeof(own), "weft%u", port->minor);
		if (!name || !strcmp(name, own))
			return port;
	}
	return NULL;
}

static int weft_net_validate(struct nlattr *tb[], struct nlattr *data[],
			     struct netlink_ext_ack *extack)
{
	if (!tb[IFLA_ADDRESS])
		return 0;
	NL_SET_ERR_MSG(extack, "weft: the address is made of the hardware id");
	return -EOPNOTSUPP;
}

static int weft_net_newlink(struct net_device *dev, struct rtnl_newlink_params *params,
			    struct netlink_ext_ack *extack)
{
	struct nlattr *parent = params->tb[IFLA_PARENT_DEV_NAME];
	struct weft_net *net = netdev_priv(dev), *other;
	struct weft_net_port *port;
	void *interface;
	int err;

	port = weft_net_find(parent ? nla_data(parent) : NULL);
	if (!port) {
		NL_SET_ERR_MSG(extack, "weft: no such port: parentdev is weftN, as in /dev");
		return -ENODEV;
	}
	list_for_each_entry(other, &weft_nets, list) {
		if (other->port == port->port) {
			NL_SET_ERR_MSG(extack, "weft: this port has an interface");
			return -EEXIST;
		}
	}
	interface = weft_net_calls->new_interface(port->port, net);
	if (IS_ERR(interface))
		return PTR_ERR(interface);
	net->interface = interface;
	net->port = port->port;
	netif_carrier_off(dev);
	err = register_netdevice(dev);
	if (err) {
		/* Depending on where it failed, this was called already. */
		if (dev->reg_state == NETREG_UNINITIALIZED)
			weft_net_destructor(dev);
		return err;
	}
	list_add(&net->list, &weft_nets);
	return 0;
}

static void weft_net_dellink(struct net_device *dev, struct list_head *head)
{
	struct weft_net *net = netdev_priv(dev);

	list_del(&net->list);
	unregister_netdevice_queue(dev, head);
}

/* No queue more, no queue less: one a peer, and the first one for what goes to all. */
static unsigned int weft_net_tx_queues(void)
{
	return WEFT_NET_PEERS + 1;
}

static unsigned int weft_net_rx_queues(void)
{
	return WEFT_NET_PEERS;
}

static struct rtnl_link_ops weft_net_link_ops __read_mostly = {
	.kind = "weft",
	.priv_size = sizeof(struct weft_net),
	.setup = weft_net_setup,
	.validate = weft_net_validate,
	.newlink = weft_net_newlink,
	.dellink = weft_net_dellink,
	.get_num_tx_queues = weft_net_tx_queues,
	.get_num_rx_queues = weft_net_rx_queues,
};

/* ---- ports that come and go ------------------------------------------------ */

static void weft_net_add(struct weft_client *client, struct weft_port *at)
{
	struct weft_net_port *port = kmalloc(sizeof(*port), GFP_KERNEL);
	struct weft_port_attr attr;

	if (!port)
		return;
	weft_query_port(at, &attr);
	port->port = at;
	port->minor = attr.minor;
	rtnl_lock();
	list_add_tail(&port->list, &weft_net_ports);
	rtnl_unlock();
}

static void weft_net_remove(struct weft_client *client, struct weft_port *at)
{
	struct weft_net_port *port, *next_port;
	struct weft_net *net, *next;
	LIST_HEAD(gone);

	rtnl_lock();
	list_for_each_entry_safe(net, next, &weft_nets, list)
		if (net->port == at)
			weft_net_dellink(net->dev, &gone);
	unregister_netdevice_many(&gone);
	list_for_each_entry_safe(port, next_port, &weft_net_ports, list) {
		if (port->port == at) {
			list_del(&port->list);
			kfree(port);
		}
	}
	rtnl_unlock();
}

static struct weft_client weft_net_client = {
	.name = "weft_net",
	.add = weft_net_add,
	.remove = weft_net_remove,
};

int weft_net_register(const struct weft_net_calls *calls)
{
	int err;

	weft_net_calls = calls;
	err = rtnl_link_register(&weft_net_link_ops);
	if (!err)
		weft_register_client(&weft_net_client);
	return err;
}

void weft_net_unregister(void)
{
	weft_unregister_client(&weft_net_client);
	rtnl_link_unregister(&weft_net_link_ops);
}

/* ---- what rust/sys/net.rs calls -------------------------------------------- */

void weft_net_set_carrier(struct weft_net *net, bool on)
{
	if (on)
		netif_carrier_on(net->dev);
	else
		netif_carrier_off(net->dev);
}

/* Returns false if the RTNL is held: the caller tries again later. */
bool weft_net_set_address(struct weft_net *net, const u8 *address, bool registered)
{
	if (!registered) {
		eth_hw_addr_set(net->dev, address);
		return true;
	}
	if (!rtnl_trylock())
		return false;
	eth_hw_addr_set(net->dev, address);
	call_netdevice_notifiers(NETDEV_CHANGEADDR, net->dev);
	rtnl_unlock();
	return true;
}

void weft_net_stop_queue(struct weft_net *net, u32 number)
{
	netif_stop_subqueue(net->dev, number);
	/* Stopped, then the caller's second look for room; pairs with weft_net_wake_queue(). */
	smp_mb();
}

void weft_net_wake_queue(struct weft_net *net, u32 number)
{
	/* Room, then the look whether it is stopped; pairs with weft_net_stop_queue(). */
	smp_mb();
	if (__netif_subqueue_stopped(net->dev, number))
		netif_wake_subqueue(net->dev, number);
}

/* Any context. */
void weft_net_schedule(struct weft_net *net, u32 number)
{
	struct weft_net_queue *queue = &net->queues[number];

	/* In a thread napi_schedule() leaves the softirq to the next interrupt. */
	if (in_interrupt())
		napi_schedule(&queue->napi);
	else
		irq_work_queue(&queue->schedule);
}

bool weft_net_complete(struct weft_net *net, u32 number, int done)
{
	return napi_complete_done(&net->queues[number].napi, done);
}

/*
 * Fills in the header of @skb, and its pieces behind that. Returns how many there are, 0 if it
 * cannot be described.
 */
size_t weft_net_pieces(struct sk_buff *skb, void *header, struct kvec *pieces)
{
	size_t n = 0;
	int i;

	if (skb_has_frag_list(skb) || !skb_frags_readable(skb) ||
	    virtio_net_hdr_from_skb(skb, header, true, false, 0))
		return 0;
	pieces[n++] = (struct kvec){ skb->data, skb_headlen(skb) };
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		pieces[n++] = (struct kvec){ skb_frag_address(frag), skb_frag_size(frag) };
	}
	return n;
}

/* Of pages that come back to the pool. */
static struct sk_buff *weft_net_alloc_pooled(struct weft_net_queue *queue, u32 linear, u32 rest)
{
	struct sk_buff *skb = napi_alloc_skb(&queue->napi, linear);

	if (!skb)
		return NULL;
	skb_mark_for_recycle(skb);
	skb_put(skb, linear);
	while (rest) {
		u32 part = min_t(u32, rest, PAGE_SIZE << WEFT_NET_ORDER), offset;
		struct page *page = page_pool_dev_alloc_frag(queue->pool, &offset, part);

		if (!page) {
			kfree_skb(skb);
			return NULL;
		}
		skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, offset, part,
				SKB_DATA_ALIGN(part));
		rest -= part;
	}
	return skb;
}

/* Of pages of whatever size there is. */
static struct sk_buff *weft_net_alloc_any(u32 linear, u32 rest)
{
	u32 room = NET_SKB_PAD + NET_IP_ALIGN;
	struct sk_buff *skb;
	int err;

	skb = alloc_skb_with_frags(room + linear, rest, WEFT_NET_ORDER, &err,
				   GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, room);
	skb_put(skb, linear);
	skb->data_len = rest;
	skb->len += rest;
	return skb;
}

/*
 * Headers in the linear part, the rest in pages: there is no 64 KiB in one piece in a softirq. In
 * the poll of queue @number.
 */
struct sk_buff *weft_net_alloc(struct weft_net *net, u32 number, u32 bytes)
{
	struct weft_net_queue *queue = &net->queues[number];
	u32 linear = min(bytes, WEFT_NET_LINEAR);
	struct sk_buff *skb = NULL;

	if (IS_ENABLED(CONFIG_PAGE_POOL))
		skb = weft_net_alloc_pooled(queue, linear, bytes - linear);
	if (!skb)
		skb = weft_net_alloc_any(linear, bytes - linear);
	if (!skb) {
		dev_core_stats_rx_dropped_inc(net->dev);
		return NULL;
	}
	skb->dev = net->dev;
	return skb;
}

/* Part @number of an skb of weft_net_alloc(); NULL if there are not so many. */
void *weft_net_part(struct sk_buff *skb, u32 number, size_t *bytes)
{
	skb_frag_t *frag;

	if (!number) {
		*bytes = skb_headlen(skb);
		return skb->data;
	}
	if (number > skb_shinfo(skb)->nr_frags)
		return NULL;
	frag = &skb_shinfo(skb)->frags[number - 1];
	*bytes = skb_frag_size(frag);
	return skb_frag_address(frag);
}

void weft_net_drop(struct weft_net *net, struct sk_buff *skb)
{
	dev_core_stats_rx_dropped_inc(net->dev);
	kfree_skb(skb);
}

/* Takes the packet. False: what its header says cannot be so. */
bool weft_net_receive(struct weft_net *net, u32 number, struct sk_buff *skb,
		      const void *header)
{
	u32 bytes = skb->len;

	/* Offsets in the header count from the Ethernet header: before that is taken off. */
	if (virtio_net_hdr_to_skb(skb, header, true)) {
		weft_net_drop(net, skb);
		return false;
	}
	skb->protocol = eth_type_trans(skb, net->dev);
	skb_record_rx_queue(skb, number);
	dev_sw_netstats_rx_add(net->dev, bytes);
	napi_gro_receive(&net->queues[number].napi, skb);
	return true;
}
