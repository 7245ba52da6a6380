// SPDX-License-Identifier: GPL-2.0

//! What each user has of the tables of a port: none takes all of one.
//!
//! The rule is in `proto::share`. What is counted belongs to the user that has opened the file, by its real
//! user id, whichever process calls then; a user that has opened it with CAP_SYS_RESOURCE is limited by
//! the size of the table only. This module must not know what is in the tables.
//!
//! # Locks
//!
//! `Shares::accounts`, inside all others. None is taken to give something back: that may happen in any
//! context.

use crate::{
    hw::MAX_LINKS,
    proto::share::{share, share_of_links},
    sys::{account::User, errno::EDQUOT, user},
};
use core::ops::Range;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// A table of a port.
#[derive(Clone, Copy)]
pub(crate) enum Table {
    /// Protection domains.
    Pds,
    /// Memory regions and windows.
    Stags,
    /// Completion queues.
    Cqs,
    /// Shared receive queues.
    Srqs,
    /// Queue pairs.
    Qps,
    /// Kick pages, one a file that has queue pairs.
    KickPages,
    /// Services that files listen on.
    Listeners,
    /// Matching interfaces.
    Interfaces,
    /// Their list entries.
    Entries,
    /// Pages of the arena of a link.
    Arena(usize),
    /// What is open on a routed link, or about to be. Links are shared out, by [`Payer::take_link`], not what
    /// is open on them.
    Link(usize),
}

/// The tables besides arenas.
const ARENAS_AT: usize = 9;
const LINKS_AT: usize = ARENAS_AT + MAX_LINKS;
const TABLES: usize = LINKS_AT + MAX_LINKS;

impl Table {
    fn index(self) -> usize {
        match self {
            Self::Pds => 0,
            Self::Stags => 1,
            Self::Cqs => 2,
            Self::Srqs => 3,
            Self::Qps => 4,
            Self::KickPages => 5,
            Self::Listeners => 6,
            Self::Interfaces => 7,
            Self::Entries => 8,
            Self::Arena(link) => ARENAS_AT + link,
            Self::Link(link) => LINKS_AT + link,
        }
    }
}

/// How many entries of each table are in use.
struct Counts([Atomic<u32>; TABLES]);

impl Counts {
    const fn new() -> Self {
        Self([const { Atomic::new(0) }; TABLES])
    }

    /// Returns the count of a table. `EINVAL`: there is no such link.
    fn of(&self, table: Table) -> Result<&Atomic<u32>> {
        self.0.get(table.index()).ok_or(EINVAL)
    }

    fn are_zero(&self) -> bool {
        self.0.iter().all(|count| count.load(Relaxed) == 0)
    }
}

/// What a user has.
struct Account {
    user: User,
    /// The number of [`Payer`]s. None of `has` grows while it is 0.
    payers: Atomic<u32>,
    has: Counts,
}

/// What the users of a port have.
#[pin_data]
pub(crate) struct Shares {
    /// One a user that has a file open, or has something still. Locked to take something.
    #[pin]
    accounts: Mutex<KVVec<Arc<Account>>>,
    /// What all users have.
    taken: Counts,
}

impl Shares {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                accounts <- new_mutex!(KVVec::new(), "weft shares"),
                taken: Counts::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Writes to `places` the user ids of those that have something open on a routed link, as many as there is
    /// room for. Returns how many it has written. Sleeps.
    pub(crate) fn users_of(&self, link: usize, places: &mut [u32]) -> usize {
        let accounts = self.accounts.lock();
        let has = |account: &&Arc<Account>| {
            let count = account.has.of(Table::Link(link));
            count.is_ok_and(|count| count.load(Relaxed) != 0)
        };
        let mut written = 0;
        for (account, place) in accounts.iter().filter(has).zip(places) {
            *place = account.user.uid();
            written += 1;
        }
        written
    }

    /// Returns the account of the current user, with one more payer.
    fn open(&self) -> Result<Arc<Account>> {
        let user = User::current();
        let mut accounts = self.accounts.lock();
        accounts.retain(|other| other.payers.load(Relaxed) != 0 || !other.has.are_zero());
        if let Some(account) = accounts.iter().find(|other| other.user == user) {
            account.payers.fetch_add(1, Relaxed);
            return Ok(account.clone());
        }
        let account = Account {
            user,
            payers: Atomic::new(1),
            has: Counts::new(),
        };
        let account = Arc::new(account, GFP_KERNEL_ACCOUNT)?;
        accounts.push(account.clone(), GFP_KERNEL_ACCOUNT)?;
        Ok(account)
    }
}

/// The user of a file, to which is counted what the file has.
pub(crate) struct Payer {
    shares: Arc<Shares>,
    account: Arc<Account>,
    /// Only the size of a table is a limit.
    exempt: bool,
}

impl Payer {
    /// Makes the current user a payer. Sleeps.
    pub(crate) fn new(shares: &Arc<Shares>) -> Result<Arc<Self>> {
        let payer = Self {
            account: shares.open()?,
            shares: shares.clone(),
            exempt: user::is_unlimited(),
        };
        // If the allocation fails, `drop` removes the payer.
        Ok(Arc::new(payer, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns how many entries the user may have in all, of a table of `limit` entries.
    pub(crate) fn share(&self, table: Table, limit: u32) -> u32 {
        let (Ok(taken), Ok(has)) = (self.shares.taken.of(table), self.account.has.of(table)) else {
            return 0;
        };
        let others = taken.load(Relaxed).saturating_sub(has.load(Relaxed));
        match self.exempt {
            true => limit.saturating_sub(others),
            false => share(limit, others),
        }
    }

    /// Counts `count` more entries of a table of `limit` entries. `ENOSPC`: the table has not so many left;
    /// `EDQUOT`: they exceed the share of the user. Sleeps.
    pub(crate) fn take(&self, table: Table, limit: u32, count: u32) -> Result<Charge> {
        let (taken, has) = (self.shares.taken.of(table)?, self.account.has.of(table)?);
        // What is given back meanwhile makes room only.
        let _accounts = self.shares.accounts.lock();
        let fits = |now: u32, most: u32| now.checked_add(count).is_some_and(|next| next <= most);
        if !fits(taken.load(Relaxed), limit) {
            return Err(ENOSPC);
        }
        if !fits(has.load(Relaxed), self.share(table, limit)) {
            return Err(EDQUOT.into());
        }
        Ok(self.charge(table, (taken, has), count))
    }

    /// Counts entries, with the accounts locked.
    fn charge(
        &self,
        table: Table,
        (taken, has): (&Atomic<u32>, &Atomic<u32>),
        count: u32,
    ) -> Charge {
        taken.fetch_add(count, Relaxed);
        has.fetch_add(count, Relaxed);
        Charge {
            shares: self.shares.clone(),
            account: self.account.clone(),
            table,
            count,
        }
    }

    /// Checks that the user may have something open on one more of the routed links `links`. `EDQUOT`: it has
    /// its share of them.
    pub(crate) fn may_take_link(&self, links: &Range<usize>) -> Result {
        let (mut own, mut others) = (0, 0);
        for link in links.clone() {
            let of = |counts: &Counts| {
                counts
                    .of(Table::Link(link))
                    .map(|count| count.load(Relaxed))
            };
            match (of(&self.account.has)?, of(&self.shares.taken)?) {
                (1.., _) => own += 1,
                (0, 1..) => others += 1,
                (0, 0) => {}
            }
        }
        match self.exempt || own < share_of_links(links.len() as u32, others) {
            true => Ok(()),
            false => Err(EDQUOT.into()),
        }
    }

    /// Counts something that the user has open on a link, if that is one of the routed links `links`.
    /// `EDQUOT`: the user has nothing on it yet, and has its share of these links. Sleeps.
    pub(crate) fn take_link(&self, links: &Range<usize>, link: usize) -> Result<Option<Charge>> {
        if !links.contains(&link) {
            return Ok(None);
        }
        let table = Table::Link(link);
        let (taken, has) = (self.shares.taken.of(table)?, self.account.has.of(table)?);
        let _accounts = self.shares.accounts.lock();
        if has.load(Relaxed) == 0 {
            self.may_take_link(links)?;
        }
        Ok(Some(self.charge(table, (taken, has), 1)))
    }
}

impl Drop for Payer {
    fn drop(&mut self) {
        // The account is removed when a file is opened next.
        self.account.payers.fetch_sub(1, Relaxed);
    }
}

/// Entries of a table that count for a user until this is dropped, in any context.
pub(crate) struct Charge {
    shares: Arc<Shares>,
    account: Arc<Account>,
    table: Table,
    count: u32,
}

impl Drop for Charge {
    fn drop(&mut self) {
        // In this order: in between, others seem to have more, not less.
        for counts in [&self.account.has, &self.shares.taken] {
            if let Ok(count) = counts.of(self.table) {
                count.fetch_sub(self.count, Relaxed);
            }
        }
    }
}
