/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for static inlines and macros of the kernel, which Rust cannot call.
 */
#ifndef WEFT_SHIM_H
#define WEFT_SHIM_H

#include <linux/device.h>
#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/uio.h>

void weft_wmb(void);
void weft_rmb(void);
void weft_mb(void);
void __iomem *weft_ioremap_cache(phys_addr_t addr, size_t bytes);
unsigned long weft_coherent_pfn(void *cpu_addr);
void weft_vm_flags_set(struct vm_area_struct *vma, unsigned long flags);
bool weft_vma_shared(const struct vm_area_struct *vma);
pgprot_t weft_pgprot_noncached(pgprot_t prot);
unsigned long weft_page_pfn(struct page *page);
void *weft_page_address(struct page *page);
struct inode *weft_mapping_inode(void);
bool weft_is_killed(void);
bool weft_memory_is_encrypted(void);
struct user_struct *weft_get_user(void);
void weft_put_user(struct user_struct *user);
bool weft_is_unlimited(void);
int weft_charge_locked(unsigned long pages, struct user_struct **user);
void weft_uncharge_locked(struct user_struct *user, unsigned long pages);
struct mm_struct *weft_count_pinned(unsigned long pages);
void weft_uncount_pinned(struct mm_struct *mm, unsigned long pages);
struct mm_struct *weft_mm_grab(void);
void weft_mm_drop(struct mm_struct *mm);
bool weft_mm_is_current(const struct mm_struct *mm);
int weft_mm_copy(struct mm_struct *mm, u64 at, void *data, size_t bytes, bool store);
int weft_mm_copy_now(u64 at, void *data, size_t bytes, bool store);
int weft_mm_hold(struct mm_struct *mm, u64 at, struct page **page);
void weft_mm_release(struct mm_struct *mm, struct page *page);
bool weft_page_exchange(struct page *page, unsigned int at, unsigned int bytes, u64 *old, u64 new);
struct task_struct *weft_thread_start(int (*run)(void *data), void *data, const char *name);
void weft_thread_begin(void);
bool weft_thread_should_stop(void);
bool weft_thread_stop(struct task_struct *thread);
size_t weft_dma_max_mapping(struct device *dev);
int weft_dma_map(struct device *dev, phys_addr_t phys, size_t bytes, bool write,
		 dma_addr_t *dma);
void weft_dma_unmap(struct device *dev, dma_addr_t dma, size_t bytes, bool write);
void *weft_phys_to_virt(phys_addr_t phys);
u64 weft_fetch_add(void *word, u64 value);
u64 weft_exchange(void *word, u64 new);
u64 weft_compare_swap(void *word, u64 old, u64 new);
struct eventfd_ctx *weft_eventfd_get(int fd);
void weft_eventfd_signal(struct eventfd_ctx *ctx);
void weft_eventfd_put(struct eventfd_ctx *ctx);
void *weft_key_new(const u8 *raw, size_t bytes);
void weft_key_code(const void *key, const u8 *message, size_t bytes, u8 *code);
void weft_key_free(void *key);
void weft_memzero(void *memory, size_t bytes);
struct weft_port *weft_port_add(const void *port);
void weft_port_remove(struct weft_port *port);
const void *weft_port_of(const struct weft_port *port);
size_t weft_iter_store(void *to, unsigned int held, u64 *word, size_t count,
		       struct iov_iter *from);
size_t weft_iter_load(const void *from, size_t count, struct iov_iter *to);
int weft_move_node(const struct class *class, dev_t number, struct device *parent);

/* ---- the Ethernet interface, c/net.c ---------------------------------------- */

/* Peers of an interface. */
#define WEFT_NET_PEERS		16
/* Counters of ethtool. */
#define WEFT_NET_COUNTERS	6
/* Bytes of the linear part of a packet that came, a multiple of 8. */
#define WEFT_NET_LINEAR		256U
/* Its other parts are of pages of this order, of which a queue keeps so many that were free. */
#define WEFT_NET_ORDER		PAGE_ALLOC_COSTLY_ORDER
#define WEFT_NET_POOL		64
/* Pieces of a packet at most: the linear part and the fragments. */
#define WEFT_NET_PIECES		64
/* A frame with its header has 65535 bytes at most. */
#define WEFT_NET_MAX_MTU	65521

#define WEFT_NET_SENT		0
#define WEFT_NET_FULL		1
#define WEFT_NET_DROP		2

struct weft_net;

/* Of rust/sys/net.rs. @interface is what new_interface() has returned. */
struct weft_net_calls {
	void *(*new_interface)(struct weft_port *port, struct weft_net *net);
	void (*free)(void *interface);
	int (*open)(void *interface);
	void (*stop)(void *interface);
	u32 (*xmit)(void *interface, struct sk_buff *skb, const u8 *frame, u32 queue);
	u16 (*select)(void *interface, const u8 *frame);
	int (*poll)(void *interface, u32 number, int budget);
	void (*counters)(void *interface, u64 *values);
};

int weft_net_register(const struct weft_net_calls *calls);
void weft_net_unregister(void);
void weft_net_set_carrier(struct weft_net *net, bool on);
bool weft_net_set_address(struct weft_net *net, const u8 *address, bool registered);
void weft_net_stop_queue(struct weft_net *net, u32 number);
void weft_net_wake_queue(struct weft_net *net, u32 number);
void weft_net_schedule(struct weft_net *net, u32 number);
bool weft_net_complete(struct weft_net *net, u32 number, int done);
size_t weft_net_pieces(struct sk_buff *skb, void *header, struct kvec *pieces);
struct sk_buff *weft_net_alloc(struct weft_net *net, u32 number, u32 bytes);
void *weft_net_part(struct sk_buff *skb, u32 number, size_t *bytes);
void weft_net_drop(struct weft_net *net, struct sk_buff *skb);
bool weft_net_receive(struct weft_net *net, u32 number, struct sk_buff *skb,
		      const void *header);

#endif /* WEFT_SHIM_H */
