/* Calls for MultiLocks, and callers that hold one key and wait for another.
 *
 * One atomic step is one script. The queue of a key is abstract: a key that is
 * released goes to any waiter; queue.pml is about messages and crashes. Of time
 * only the end is modelled. A right of way ends when nothing else can happen, or
 * at any moment while ENDS of them are left.
 *
 * -DNM=2    calls for all keys           -DNK=3    keys
 * -DNP=1    callers that lock the last key, then the first, and hold both
 * -DSINGLE  those callers lock one key, any
 * -DROUNDS=2  holds of each              -DENDS=1  early ends of a right of way
 * -DATONCE  the keys are of several slots: a try of a call that does not keep
 *           keys asks for each by a separate script, in any order, and releases
 *           what it got in vain; a call may also begin in the queue of the
 *           first key
 * -DNT=0    calls with such a try that do not wait
 *
 * Mutants: M_NEVER_ENDS  a right of way has no end
 *          M_ANY_ORDER   the keys behind the busy one are kept too
 *          M_WAITS_WITH_ALL  a call keeps what such a try got while it waits
 *          M_KEPT_IS_HELD  a call uses what it keeps as a hold, for a whole lease
 */
#ifndef NM
#define NM 2
#endif
#ifndef NK
#define NK 3
#endif
#ifndef NP
#define NP 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef ENDS
#define ENDS 1
#endif
#ifndef NT
#define NT 0
#endif
#define MISSES 2
#define ALL ((1 << NK) - 1)
#define N (NM + NP)
#define FREE 255

byte owner[NK] = FREE;  /* in Redis: a process with a hold, an entry or a right of way */
bool waits[NK * N];     /* the queues */
byte holder[NK] = FREE;
byte early = ENDS;

/* release(k) hands the key off to a waiter, if there is one. */
inline release(k) {
	owner[k] = FREE;
	if
	:: waits[(k) * N] -> waits[(k) * N] = false; owner[k] = 0
	:: N > 1 && waits[(k) * N + 1 % N] -> waits[(k) * N + 1 % N] = false; owner[k] = 1
	:: N > 2 && waits[(k) * N + 2 % N] -> waits[(k) * N + 2 % N] = false; owner[k] = 2
	:: N > 3 && waits[(k) * N + 3 % N] -> waits[(k) * N + 3 % N] = false; owner[k] = 3
	:: else
	fi
}

/* queue_at(k) takes a free key, or waits for it. */
inline queue_at(k) {
	if
	:: owner[k] == FREE -> owner[k] = _pid
	:: owner[k] == _pid
	:: else -> waits[(k) * N + _pid] = true
	fi
}

inline grant(k) {
	assert((holder[k] == FREE || holder[k] == _pid) && owner[k] == _pid);
	holder[k] = _pid
}

/* busy becomes the first key that the call cannot have, NK if there is none. */
inline find_busy() {
	busy = 0;
	do
	:: busy < NK && (owner[busy] == FREE || owner[busy] == _pid) -> busy++
	:: else -> break
	od
}

/* refuse keeps the keys before the busy one, and releases the others. */
inline refuse() {
	kept = 0;
	i = 0;
	do
	:: i == NK -> break
	:: i < busy && misses >= MISSES ->
		owner[i] = _pid; kept++;
#ifdef M_KEPT_IS_HELD
		grant(i);
#endif
		i++
	:: !(i < busy && misses >= MISSES) && i < NK ->
		if
#ifdef M_ANY_ORDER
		:: owner[i] == _pid && misses >= MISSES -> kept++
		:: owner[i] == _pid && misses < MISSES -> release(i)
#else
		:: owner[i] == _pid -> release(i)
#endif
		:: else
		fi;
		i++
	od
}

/* ask(k) takes a key that is free or the call's own, by a separate script. */
inline ask(k) {
	asked = asked | (1 << (k));
	if
	:: owner[k] == FREE || owner[k] == _pid -> owner[k] = _pid; took = took | (1 << (k))
	:: else
	fi
}

/* ask_at_once asks for all keys, in any order. */
inline ask_at_once() {
	asked = 0;
	took = 0;
	do
	:: asked == ALL -> break
	:: atomic { !(asked & 1) -> ask(0) }
	:: atomic { NK > 1 && !(asked & 2) -> ask(1 % NK) }
	:: atomic { NK > 2 && !(asked & 4) -> ask(2 % NK) }
	od
}

/* release_taken releases what such a try got, in any order. */
inline release_taken() {
	do
	:: took == 0 -> break
	:: atomic { (took & 1) -> took = took & ~1; release(0) }
	:: atomic { NK > 1 && (took & 2) -> took = took & ~2; release(1 % NK) }
	:: atomic { NK > 2 && (took & 4) -> took = took & ~4; release(2 % NK) }
	od
}

/* yield ends a right of way: all keys are released, and the entry stays. */
inline yield() {
	i = 0;
	do
	:: i == NK -> break
	:: i < NK ->
		if
		:: owner[i] == _pid && i != busy -> release(i)
		:: else
		fi;
		i++
	od;
	kept = 0;
	misses = 0
}

active [NM] proctype multi() {
	byte busy, i, kept, misses, round;
#ifdef ATONCE
	byte asked, took;
#endif
	do
	:: round == ROUNDS -> break
	:: round < ROUNDS ->
		misses = 0;
#ifdef ATONCE
		if
		:: true
		:: busy = 0; goto waits_for_it
		fi;
again:
		if
		:: misses >= MISSES -> goto in_order
		:: misses < MISSES
		fi;
		ask_at_once();
		if
		:: atomic { took == ALL ->
			i = 0;
			do
			:: i == NK -> break
			:: i < NK -> grant(i); i++
			od };
			goto held
		:: atomic { took != ALL ->
			busy = 0;
			do
			:: took & (1 << busy) -> busy++
			:: else -> break
			od }
		fi;
#ifndef M_WAITS_WITH_ALL
		release_taken();
#endif
		goto waits_for_it;
in_order:
#else
again:
#endif
		atomic {
			find_busy();
			if
			:: busy == NK ->
				i = 0;
				do
				:: i == NK -> break
				:: i < NK -> owner[i] = _pid; grant(i); i++
				od;
				goto held
			:: else -> refuse()
			fi
		};
waits_for_it:
		atomic { queue_at(busy) };
		do
		:: atomic { owner[busy] == _pid -> misses = (misses < MISSES -> misses + 1 : misses) }; break
#ifndef M_NEVER_ENDS
		:: atomic { kept > 0 && early > 0 && owner[busy] != _pid -> early--; yield() }
		:: atomic { timeout && kept > 0 -> yield() }
#endif
		od;
		goto again;
held:
		i = 0;
		do
		:: i == NK -> break
		:: atomic { i < NK -> holder[i] = FREE; release(i); i++ }
		od;
		kept = 0;
		round++
	od
}

active [NP] proctype other() {
	byte round, k;
	do
	:: round == ROUNDS -> break
	:: round < ROUNDS ->
#ifdef SINGLE
		select (k : 0 .. NK - 1);
#else
		k = NK - 1;
#endif
		atomic { queue_at(k) };
		atomic { owner[k] == _pid -> grant(k) };
#ifndef SINGLE
		atomic { queue_at(0) };
		atomic { owner[0] == _pid -> grant(0) };
		atomic { holder[0] = FREE; release(0) };
#endif
		atomic { holder[k] = FREE; release(k) };
		round++
	od
}

#if NT > 0
active [NT] proctype tries() {
	byte asked, took, i, round;
	do
	:: round == ROUNDS -> break
	:: round < ROUNDS ->
		ask_at_once();
		if
		:: atomic { took == ALL ->
			i = 0;
			do
			:: i == NK -> break
			:: i < NK -> grant(i); holder[i] = FREE; i++
			od }
		:: took != ALL
		fi;
		release_taken();
		round++
	od
}
#endif
