// SPDX-License-Identifier: GPL-2.0
#include <crypto/sha2.h>
#include <linux/anon_inodes.h>
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cc_platform.h>
#include <linux/cred.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>
#include "shim.h"

/* rust/sys/area.rs, which calls the barriers, says what each is for. */

void weft_wmb(void)
{
	/* Also drains write-combining buffers. */
	wmb();
}

void weft_rmb(void)
{
	/* Between the load of the word that publishes data, and loads of the data. */
	dma_rmb();
}

void weft_mb(void)
{
	/* Between loads of data, and the store that lets the writer overwrite them. */
	mb();
}

void __iomem *weft_ioremap_cache(phys_addr_t addr, size_t bytes)
{
	return ioremap_cache(addr, bytes);
}

/* Returns the page frame number of an address in coherent DMA memory, vmalloc or not. */
unsigned long weft_coherent_pfn(void *cpu_addr)
{
	if (is_vmalloc_addr(cpu_addr))
		return vmalloc_to_pfn(cpu_addr);
	return page_to_pfn(virt_to_page(cpu_addr));
}

void weft_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vm_flags_set(vma, flags);
}

bool weft_vma_shared(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE;
}

pgprot_t weft_pgprot_noncached(pgprot_t prot)
{
	return pgprot_noncached(prot);
}

unsigned long weft_page_pfn(struct page *page)
{
	return page_to_pfn(page);
}

void *weft_page_address(struct page *page)
{
	return page_address(page);
}

/*
 * Returns a new inode; its address_space collects every mapping of one port, through
 * whichever inode the mapped file was opened. The file of the new inode is dropped
 * at once: its f_op belong to this module, so it must not outlive the module.
 */
struct inode *weft_mapping_inode(void)
{
	static const struct file_operations none;
	struct file *file;
	struct inode *inode;

	file = anon_inode_create_getfile("[weft]", &none, NULL, O_RDWR, NULL);
	if (IS_ERR(file))
		return ERR_CAST(file);
	inode = file_inode(file);
	ihold(inode);
	__fput_sync(file);
	return inode;
}

bool weft_is_killed(void)
{
	return fatal_signal_pending(current);
}

/* Whether a device reads only pages that were decrypted for it: in a guest with SEV or TDX. */
bool weft_memory_is_encrypted(void)
{
	return cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT);
}

/* Returns a reference to the user of the current process. */
struct user_struct *weft_get_user(void)
{
	return get_uid(current_user());
}

void weft_put_user(struct user_struct *user)
{
	free_uid(user);
}

/* Whether the current task has CAP_SYS_RESOURCE; most have not, and need not be audited. */
bool weft_is_unlimited(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
}

/*
 * Charges @pages to the user of the current process; takes a reference to it. The charge is
 * to the user, as io_uring's is: an mm ends with exec() or exit(), while a descriptor that is
 * kept keeps the pages. With CAP_IPC_LOCK nothing is charged, and *@user is NULL. -ENOMEM if
 * RLIMIT_MEMLOCK does not allow so many.
 */
int weft_charge_locked(unsigned long pages, struct user_struct **user)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *charged = NULL;
	unsigned long now, next;

	if (!capable(CAP_IPC_LOCK)) {
		charged = current_user();
		now = atomic_long_read(&charged->locked_vm);
		do {
			if (check_add_overflow(now, pages, &next) || next > limit)
				return -ENOMEM;
		} while (!atomic_long_try_cmpxchg(&charged->locked_vm, &now, next));
		get_uid(charged);
	}
	*user = charged;
	return 0;
}

/* Undoes the charge; the reference stays the caller's. */
void weft_uncharge_locked(struct user_struct *user, unsigned long pages)
{
	atomic_long_sub(pages, &user->locked_vm);
}

/*
 * Counts @pages as pinned by the mm of the current process, and returns it, with a reference
 * (mmgrab()); NULL if the task has none.
 */
struct mm_struct *weft_count_pinned(unsigned long pages)
{
	struct mm_struct *mm = current->mm;

	if (mm) {
		atomic64_add(pages, &mm->pinned_vm);
		mmgrab(mm);
	}
	return mm;
}

/* Undoes weft_count_pinned(). The mm may have ended. */
void weft_uncount_pinned(struct mm_struct *mm, unsigned long pages)
{
	atomic64_sub(pages, &mm->pinned_vm);
	mmdrop(mm);
}

/* Returns the mm of the current process, with a reference; NULL if the task has none. */
struct mm_struct *weft_mm_grab(void)
{
	struct mm_struct *mm = current->mm;

	if (mm)
		mmgrab(mm);
	return mm;
}

void weft_mm_drop(struct mm_struct *mm)
{
	mmdrop(mm);
}

/* Returns whether the current task has this mm. */
bool weft_mm_is_current(const struct mm_struct *mm)
{
	return current->mm == mm;
}

/*
 * Copies to or from memory of a process, by a thread of the kernel. -ESRCH: the process has
 * ended, or has called exec(). -EFAULT: not all of it is there, or the thread is to stop. Sleeps.
 */
int weft_mm_copy(struct mm_struct *mm, u64 at, void *data, size_t bytes, bool store)
{
	void __user *user = u64_to_user_ptr(at);
	unsigned long left;

	if (!mmget_not_zero(mm))
		return -ESRCH;
	kthread_use_mm(mm);
	left = store ? copy_to_user(user, data, bytes) : copy_from_user(data, user, bytes);
	kthread_unuse_mm(mm);
	mmput(mm);
	return left ? -EFAULT : 0;
}

/*
 * The same, by a task of the process, and without waiting for pages. -EAGAIN: not all of it is
 * there, now or at all. What was stored may be a part.
 */
int weft_mm_copy_now(u64 at, void *data, size_t bytes, bool store)
{
	void __user *user = u64_to_user_ptr(at);
	long left;

	left = store ? copy_to_user_nofault(user, data, bytes) :
		       copy_from_user_nofault(data, user, bytes);
	return left ? -EAGAIN : 0;
}

/*
 * Has the page at an address be there, to be written, until weft_mm_release(). Errors as above.
 * Sleeps.
 */
int weft_mm_hold(struct mm_struct *mm, u64 at, struct page **page)
{
	int held;

	if (!mmget_not_zero(mm))
		return -ESRCH;
	kthread_use_mm(mm);
	held = pin_user_pages_fast(at & PAGE_MASK, 1, FOLL_WRITE, page);
	kthread_unuse_mm(mm);
	if (held == 1)
		return 0;
	mmput(mm);
	return -EFAULT;
}

void weft_mm_release(struct mm_struct *mm, struct page *page)
{
	unpin_user_pages_dirty_lock(&page, 1, true);
	mmput(mm);
}

/*
 * Stores an integer of 1, 2, 4 or 8 bytes, at a multiple of that in a page, if *@old is there.
 * *@old is what was there.
 */
bool weft_page_exchange(struct page *page, unsigned int at, unsigned int bytes, u64 *old, u64 new)
{
	void *map = kmap_local_page(page);
	u64 was = 0;

	switch (bytes) {
	case 1:
		was = cmpxchg((u8 *)(map + at), (u8)*old, (u8)new);
		break;
	case 2:
		was = cmpxchg((u16 *)(map + at), (u16)*old, (u16)new);
		break;
	case 4:
		was = cmpxchg((u32 *)(map + at), (u32)*old, (u32)new);
		break;
	case 8:
		was = cmpxchg((u64 *)(map + at), *old, new);
		break;
	}
	kunmap_local(map);
	swap(*old, was);
	return *old == was;
}

struct task_struct *weft_thread_start(int (*run)(void *data), void *data, const char *name)
{
	return kthread_run(run, data, "%s", name);
}

/* A page fault of the thread ends when weft_thread_stop() is called. */
void weft_thread_begin(void)
{
	allow_kernel_signal(SIGKILL);
}

/* Called in each round: also lets other tasks run. */
bool weft_thread_should_stop(void)
{
	cond_resched();
	return kthread_should_stop();
}

/* Waits until the thread has ended. Returns false if it was stopped before it has run. */
bool weft_thread_stop(struct task_struct *thread)
{
	send_sig(SIGKILL, thread, 1);
	return kthread_stop(thread) != -EINTR;
}

static enum dma_data_direction weft_dma_direction(bool write)
{
	return write ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

size_t weft_dma_max_mapping(struct device *dev)
{
	return dma_max_mapping_size(dev);
}

/*
 * Users access the memory while it is mapped, and it can be mapped more than once:
 * there is no time at which a bounce buffer could be synchronised.
 */
#define WEFT_DMA_ATTRS	DMA_ATTR_REQUIRE_COHERENT

int weft_dma_map(struct device *dev, phys_addr_t phys, size_t bytes, bool write,
		 dma_addr_t *dma)
{
	*dma = dma_map_page_attrs(dev, pfn_to_page(PHYS_PFN(phys)), 0, bytes,
				  weft_dma_direction(write), WEFT_DMA_ATTRS);
	return dma_mapping_error(dev, *dma) ? -ENOMEM : 0;
}

void weft_dma_unmap(struct device *dev, dma_addr_t dma, size_t bytes, bool write)
{
	dma_unmap_page_attrs(dev, dma, bytes, weft_dma_direction(write), WEFT_DMA_ATTRS);
}

void *weft_phys_to_virt(phys_addr_t phys)
{
	return __va(phys);
}

u64 weft_fetch_add(void *word, u64 value)
{
	return atomic64_fetch_add(value, (atomic64_t *)word);
}

u64 weft_exchange(void *word, u64 new)
{
	return xchg((u64 *)word, new);
}

u64 weft_compare_swap(void *word, u64 old, u64 new)
{
	return cmpxchg64((u64 *)word, old, new);
}

struct eventfd_ctx *weft_eventfd_get(int fd)
{
	return eventfd_ctx_fdget(fd);
}

void weft_eventfd_signal(struct eventfd_ctx *ctx)
{
	eventfd_signal(ctx);
}

void weft_eventfd_put(struct eventfd_ctx *ctx)
{
	eventfd_ctx_put(ctx);
}

/* Returns a key of HMAC-SHA-256 that is prepared, or NULL. */
void *weft_key_new(const u8 *raw, size_t bytes)
{
	struct hmac_sha256_key *key = kmalloc(sizeof(*key), GFP_KERNEL);

	if (key)
		hmac_sha256_preparekey(key, raw, bytes);
	return key;
}

void weft_key_code(const void *key, const u8 *message, size_t bytes, u8 *code)
{
	hmac_sha256(key, message, bytes, code);
}

void weft_key_free(void *key)
{
	kfree_sensitive(key);
}

void weft_memzero(void *memory, size_t bytes)
{
	memzero_explicit(memory, bytes);
}

static DEFINE_MUTEX(weft_moving_nodes);

int weft_move_node(const struct class *class, dev_t number, struct device *parent)
{
	struct device *node = class_find_device_by_devt(class, number);
	struct kobject *dir;
	int err;

	if (!node)
		return -ENODEV;
	mutex_lock(&weft_moving_nodes);
	dir = node->kobj.parent;
	err = device_move(node, parent, DPM_ORDER_NONE);
	/*
	 * device_add() took a reference to the directory of the class below the parent, which
	 * device_del() would give back; device_move() takes one to the next and keeps that one. The
	 * directory would stay, and the class of the next module could not make it. What is last in
	 * it removes it. Nothing looks for it meanwhile: below a function there is one node at a
	 * time, and what has no parent has come there by this function.
	 */
	if (!err) {
		if (kref_read(&dir->kref) == 1)
			kobject_del(dir);
		kobject_put(dir);
	}
	mutex_unlock(&weft_moving_nodes);
	put_device(node);
	return err;
}
