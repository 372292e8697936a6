/*
 * ForceUnlock of one lock, for spin. README.md says how to run it and what was
 * seen, docs/internals/force-design.md what it is about.
 *
 * One atomic step is one script, or one step of a client. Requests, answers and
 * messages are under way for any time. The queue is abstract: a lock that is
 * handed off goes to any waiter. One process chooses among all steps, so "else"
 * is: nothing can happen any more. The graph has no cycle (pan -l), so each run
 * ends there. Then every call is done, every ForceUnlock has returned, and the
 * lock is free. No two calls have a valid hold, and no hold is marked but the one
 * that ForceUnlock has seen.
 *
 * A hold is valid until its client ends it, or its time is over. The key may
 * expire only after that. Time is not in the model otherwise. While anything
 * else can happen, only keys of clients that are dead, hang or were cut off
 * expire. So a mark that only the end of the lease ends is never one of a live
 * client, and no notice is needed that takes as long.
 *
 * Not in the model: read/write locks and semaphores, whose holds are marked one
 * by one, hand-offs in memory, and Detach. The end of a group and the release of
 * its member are the two steps of M_ACK_FIRST.
 *
 * Mutants: M_RENEWS  a renewal extends a marked hold
 *          M_NO_POLL  a lease that is not renewed does not poll
 *          M_ACK_FIRST  the release is sent before the hold has ended
 *          M_ACK_ANY  a release ends whatever is marked
 *          M_RELEASE_UNMARKED  a release knows its hold without the mark only
 *          M_CANCEL_UNMARKED  the same for a cancel
 *          M_TRANSFER_ENDS  a transfer that is refused sends no release
 *          M_MARKS_ANY  a mark means what is there, not the hold that was seen
 *          M_BY_WAITER  the name of a waiter stands for its hold
 *          M_FREES_RESERVATION  one that a message may have granted is freed
 *          M_GRANTS_MARKED  an own copy is granted though it is marked
 *          M_SAME_NAME  its waiter goes on under its name
 *          M_POLL_HIDES_MARK  a poll does not name it
 *          M_ONCE  ForceUnlock does not mark again after a failover
 *          NOW  the option WithoutAck: two callers may have the lock
 */

#ifndef NW
#define NW 2		/* calls, each by another client; each wants one hold */
#endif
#ifndef NF
#define NF 1		/* calls of ForceUnlock */
#endif

/* Sets of calls, one bit each. */
#ifndef STUCK
#define STUCK 0		/* they never unlock */
#endif
#ifndef FIXED
#define FIXED 0		/* tsuccessor leases are not renewed: they poll for the mark */
#endif
#ifndef GRANT
#define GRANT 0		/* a message may be tsuccessor grant, see docs/internals/grants.md */
#endif
#define in(set, w)	(((set) >> (w)) & 1)

/* How often what may happen. */
#ifndef LATE
#define LATE 0		/* requests of a waiter that are executed later, or never */
#endif
#ifndef LOST
#define LOST 0		/* lost answers to waiters */
#endif
#ifndef FLATE
#define FLATE 0		/* requests of ForceUnlock that are executed later too */
#endif
#ifndef RLATE
#define RLATE 0		/* the same for releases */
#endif
#ifndef MSGLOST
#define MSGLOST 0	/* lost messages of any kind */
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef HANG
#define HANG 0		/* clients that hang, or are cut off */
#endif
#ifndef GIVEUP
#define GIVEUP 0
#endif
#ifndef UNMARK
#define UNMARK 0	/* failovers that lose the mark */
#endif
#ifndef UNACK
#define UNACK 0		/* failovers that lose the acknowledgement */
#endif
#ifndef TRANSFER
#define TRANSFER 0	/* hand-offs by one request, within a client */
#endif

#define FREE	0
#define NONE	255
#define NAMES	(2 * NW)	/* a call may draw a second name */
#define HELD(n)	(1 + (n))
#define MARK(n)	(16 + (n))	/* held, and marked */
#define RES(n)	(32 + (n))	/* reserved */
#define isHeld	(L >= HELD(0) && L < MARK(0))
#define isMark	(L >= MARK(0) && L < RES(0))
#define isRes	(L >= RES(0))
#define named	(isRes -> L - RES(0) : (isMark -> L - MARK(0) : L - HELD(0)))
#define CL(n)	((n) % NW)

/* ---- the server ---- */
byte L = FREE;
bool inQ[NW];
byte gen[NAMES];	/* counts the turns of a name */
bool unheard[NAMES];	/* the answer of a grant was lost: its call may take the lock again by that name */
byte lost = FREE;	/* the hold that the last release ended, while nobody has another one */
bool revived;		/* a failover has brought it back */

/* ---- on the way ---- */
mtype = { idle, enq, clm, granted, queued, notqueued, forced };
mtype rq[NW] = idle;
mtype late[NW] = idle;
byte lateN[NW];		/* the name in it */
bool msg[NW];		/* a wake-up, or a grant */
bool fmsg[NW];		/* the message that the hold is marked */
byte rlate = NONE;	/* a release */
byte flate = NONE;	/* a request of ForceUnlock: the name, and the hold that it meant */
byte flateG;
bool flateR;

/* ---- the clients ---- */
mtype = { new, waiting, holds, over, dead };
mtype ph[NW] = new;
bool second[NW];	/* it has drawn its second name */
bool valid[NW];		/* its hold */
bool wake[NW];
bool unsure[NW];	/* holds by a message, and its claim is not answered */
bool releasing[NW];
bool ending[NW];	/* of a mutant: the acknowledgement goes first */
bool cancels[NAMES];	/* the cancel of a name that was left, with its hold */
bool hung[NW];
byte successor[NW] = NONE;	/* the call that a transfer under way is for */

mtype dropped = idle;	/* answers that nobody reads */
byte ignored;
bool tooLong;		/* of a mutant: a marked hold is valid for longer than its key stays */

/* ---- ForceUnlock ---- */
byte fph[NF];		/* 0 not begun, 1 the name is known, 2 marked, 3 returned */
byte fn[NF];
byte fg[NF];
bool fr[NF];

byte nLate = LATE, nLost = LOST, nFlate = FLATE, nRlate = RLATE, nMsgLost = MSGLOST, nCrash = CRASH, nHang = HANG, nGiveup = GIVEUP;
byte nUnmark = UNMARK, nUnack = UNACK, nTransfer = TRANSFER;

#define done(w)		(ph[w] == over || ph[w] == dead)
#define NEXT(w)		(((w) + 1) % NW)
#define NAME(w)		((w) + (second[w] -> NW : 0))
#define up(w)		(ph[w] != dead && !hung[w])
#define has(w)		(ph[w] == holds && valid[w])

inline exclusive() {
	assert(has(0) + has(1)
#if NW > 2
		+ has(2)
#endif
		<= 1)
}

/* ---------------------------------------------------------------- scripts */

inline reserve(w) {
	gen[NAME(w)]++;
	L = RES(NAME(w));
	inQ[w] = false;
	msg[w] = (ph[w] != dead)
}

inline hand_off() {
	if
	:: inQ[0] -> reserve(0)
	:: inQ[1] -> reserve(1)
#if NW > 2
	:: inQ[2] -> reserve(2)
#endif
	:: else -> L = FREE
	fi
}

/* take makes the hold of a waiter. Another hold may be lost with it. */
inline take(w, n) {
	L = HELD(n);
	inQ[w] = false;
	lost = FREE
}

/* own_mark is the answer to a waiter whose own copy has taken the lock, and was
 * marked. */
#if defined(M_GRANTS_MARKED)		/* validity counts from this request, the lease does not */
#define own_mark(w)	granted; tooLong = true
#elif defined(M_SAME_NAME)
#define own_mark(w)	queued; inQ[w] = true
#else
#define own_mark(w)	forced
#endif

inline enqueue(w, n, answer) {
	if
	:: L == HELD(n) -> answer = granted
	:: L == MARK(n) -> answer = own_mark(w)
	:: L == RES(n) || L == FREE -> take(w, n); answer = granted
	:: else -> inQ[w] = (n == NAME(w) && ph[w] == waiting); answer = queued
	fi
}

inline claim(w, n, answer) {
	if
	:: L == HELD(n) -> answer = granted
	:: L == MARK(n) -> answer = own_mark(w)
	:: L == RES(n) || (L == FREE && inQ[w]) -> take(w, n); answer = granted
	:: L == FREE && !inQ[w] -> hand_off(); answer = notqueued
	:: else ->
		if
		:: inQ[w] -> answer = queued
		:: else -> answer = notqueued
		fi
	fi
}

#if defined(M_RELEASE_UNMARKED)
#define owns(n)		(L == HELD(n))
#elif defined(M_ACK_ANY)
#define owns(n)		(L == HELD(n) || isMark)
#else
#define owns(n)		(L == HELD(n) || L == MARK(n))
#endif

/* release is the acknowledgement too: it knows the hold with its mark. That of
 * a waiter with a nonce names the reservation. */
inline release(n) {
	if
	:: owns(n) || (in(GRANT, CL(n)) && L == RES(n)) -> lost = L; hand_off()
	:: else
	fi
}

/* cancel: the flag "also the hold" is set. */
inline cancel(n) {
	if
#ifdef M_CANCEL_UNMARKED
	:: L == HELD(n) || L == RES(n) -> lost = L; hand_off()
#else
	:: L == HELD(n) || L == MARK(n) || L == RES(n) -> lost = L; hand_off()
#endif
	:: L == FREE -> hand_off()
	:: else
	fi
}

#ifdef M_FREES_RESERVATION
#define waits(n)	false
#else
#define waits(n)	in(GRANT, CL(n))
#endif
#ifdef M_BY_WAITER		/* the name of a waiter stands for its hold */
#define RESERVED(r)	false
#else
#define RESERVED(r)	(r)
#endif
#ifdef M_MARKS_ANY		/* it marks what is there, instead of the hold that was seen */
#define means(n)	isHeld
#else
#define means(n)	(L == HELD(n))
#endif

/* force marks the hold n, seen in the g-th turn of that name. r: it was seen as
 * a reservation, which a message may have made a hold already. That is waited
 * for: once it is claimed, ForceUnlock looks again. The result is its next
 * phase. */
inline force(n, r, g, next) {
	if
	:: RESERVED(r) && (L == HELD(n) || L == MARK(n)) -> next = (in(GRANT, CL(n)) -> 0 : 3)
	:: !RESERVED(r) && means(n) ->
#ifdef NOW
		lost = FREE;
		hand_off();
		next = 3
#else
		assert(!has(CL(named)) || (named == n && (gen[n] == g || unheard[n])));	/* and no other hold */
		L = MARK(named);
		fmsg[CL(named)] = (ph[CL(named)] != dead);
		next = 2
#endif
	:: !RESERVED(r) && L == MARK(n) -> next = 2
	:: r && L == RES(n) && waits(n) -> next = 2
	:: r && L == RES(n) && !waits(n) -> hand_off(); next = 3
	:: L == FREE -> hand_off(); next = 3
	:: else -> next = 3
	fi
}

/* ---------------------------------------------------------------- clients */

inline leave(w) {
	if
	:: (rq[w] == enq || rq[w] == clm) && late[w] == idle -> late[w] = rq[w]; lateN[w] = NAME(w)
	:: else
	fi;
	rq[w] = idle;
	wake[w] = false
}

/* lose ends a hold in its client first. Then the acknowledgement is sent. */
inline lose(w) {
	if
	:: rq[w] == clm -> rq[w] = idle
	:: else
	fi;
	leave(w);
#ifdef M_ACK_FIRST
	ending[w] = true;
#else
	ph[w] = over;
	valid[w] = false;
#endif
	releasing[w] = true;
	cancels[NAME(w)] = unsure[w] || (late[w] != idle);
	unsure[w] = false
}

/* A cancel is repeated while a request of the name may still be executed. */
#define isLate(n)	(late[CL(n)] != idle && lateN[CL(n)] == n)

inline die(w) {
	leave(w);
	ph[w] = dead; valid[w] = false; hung[w] = false; msg[w] = false; fmsg[w] = false; inQ[w] = false;
	unsure[w] = false; releasing[w] = false; ending[w] = false; successor[w] = NONE;
	cancels[w] = false; cancels[w + NW] = false
}

#define asleep(w)	(ph[w] == waiting && rq[w] == idle && !wake[w] && !msg[w] && up(w))
#define busy(w)		(msg[w] || wake[w] || rq[w] != idle || releasing[w])
#if NW > 2
#define quiet		(!busy(0) && !busy(1) && !busy(2))
#define sleeps		(asleep(0) || asleep(1) || asleep(2))
#else
#define quiet		(!busy(0) && !busy(1))
#define sleeps		(asleep(0) || asleep(1))
#endif

/* A live holder learns of the mark by its renewal, or by its poll. */
#ifdef M_RENEWS
#define asks(w)		(in(FIXED, w))
#elif defined(M_NO_POLL)
#define asks(w)		(!in(FIXED, w))
#else
#define asks(w)		true
#endif

#ifdef M_TRANSFER_ENDS		/* a transfer that is refused sends no release */
#define REFUSED(w)	skip
#else
#define REFUSED(w)	releasing[w] = true
#endif

#define CALL_STEPS(w) \
	:: atomic { ph[w] == new && up(w) -> ph[w] = waiting; rq[w] = enq } \
	:: atomic { rq[w] == enq && up(w) -> enqueue(w, NAME(w), rq[w]) } \
	:: atomic { rq[w] == clm && up(w) -> claim(w, NAME(w), rq[w]) } \
	/* validity counts from the sending, so a grant that has ended is none */ \
	:: atomic { rq[w] == granted && up(w) -> rq[w] = idle; wake[w] = false; unsure[w] = false; \
		if \
		:: GRANT_ENDED(w) -> ph[w] = over; valid[w] = false; releasing[w] = true; cancels[NAME(w)] = (late[w] != idle) \
		:: else -> ph[w] = holds; valid[w] = true; exclusive() \
		fi } \
	:: atomic { rq[w] == queued && !unsure[w] && up(w) -> rq[w] = idle } \
	:: atomic { rq[w] == notqueued && !unsure[w] && up(w) -> rq[w] = enq } \
	/* its own copy was marked: the name is left, with the hold */ \
	:: atomic { rq[w] == forced && !unsure[w] && up(w) -> cancels[NAME(w)] = true; wake[w] = false; \
		if \
		:: second[w] -> rq[w] = idle; ph[w] = over \
		:: else -> second[w] = true; rq[w] = enq \
		fi } \
	:: atomic { (rq[w] == queued || rq[w] == notqueued || rq[w] == forced) && unsure[w] && up(w) -> lose(w) } \
	:: atomic { ph[w] == waiting && rq[w] == idle && wake[w] && up(w) -> wake[w] = false; rq[w] = clm } \
	:: atomic { msg[w] && up(w) -> msg[w] = false; \
		if \
		:: in(GRANT, w) && ph[w] == waiting && rq[w] == idle && L == RES(NAME(w)) -> /* in time */ \
			unsure[w] = true; ph[w] = holds; valid[w] = true; rq[w] = clm; exclusive() \
		:: ph[w] == waiting -> wake[w] = true \
		:: else \
		fi } \
	:: atomic { msg[w] && nMsgLost > 0 -> nMsgLost--; msg[w] = false } \
	/* the poll of a waiter, and what expires */ \
	:: atomic { (L == RES(NAME(w)) || L == HELD(NAME(w)) || SHOWS_MARK(w)) && asleep(w) -> wake[w] = true } \
	:: atomic { ph[w] == waiting && asleep(w) && !inQ[w] && L != RES(NAME(w)) && L != HELD(NAME(w)) && L != MARK(NAME(w)) -> inQ[w] = true; if :: L == FREE -> hand_off() :: else fi } \
	/* its end */ \
	:: atomic { ph[w] == holds && !unsure[w] && !ending[w] && !in(STUCK, w) && up(w) -> ph[w] = over; valid[w] = false; \
		releasing[w] = true; cancels[NAME(w)] = (late[w] != idle) } \
	:: atomic { ph[w] == waiting && nGiveup > 0 && up(w) -> nGiveup--; leave(w); ph[w] = over; inQ[w] = false; cancels[NAME(w)] = true } \
	:: atomic { releasing[w] && up(w) -> releasing[w] = false; release(NAME(w)) } \
	:: atomic { releasing[w] && nRlate > 0 && rlate == NONE && up(w) -> nRlate--; rlate = NAME(w) } \
	:: atomic { ending[w] && up(w) -> ending[w] = false; ph[w] = over; valid[w] = false } \
	/* a transfer: one request ends the one hold and makes the other */ \
	:: atomic { ph[w] == holds && !unsure[w] && !in(STUCK, w) && late[w] == idle && nTransfer > 0 && asleep(NEXT(w)) && !second[NEXT(w)] && up(w) -> nTransfer--; \
		ph[w] = over; valid[w] = false; successor[w] = NEXT(w) } \
	:: atomic { successor[w] != NONE && up(w) -> \
		if \
		:: L == HELD(NAME(w)) && asleep(NEXT(w)) && !second[NEXT(w)] -> \
			cancels[NEXT(w)] = true; second[NEXT(w)] = true; inQ[NEXT(w)] = false; L = HELD(NAME(NEXT(w))); gen[NAME(NEXT(w))]++; \
			ph[NEXT(w)] = holds; valid[NEXT(w)] = true; exclusive() \
		:: L == HELD(NAME(w)) && !(asleep(NEXT(w)) && !second[NEXT(w)]) -> releasing[w] = true \
		:: else -> REFUSED(w) \
		fi; \
		successor[w] = NONE } \
	/* it learns of the mark, or that its hold is gone */ \
	:: atomic { fmsg[w] && up(w) -> fmsg[w] = false; \
		if :: ph[w] == holds && !ending[w] && L == MARK(NAME(w)) -> lose(w) :: else fi } \
	:: atomic { fmsg[w] && nMsgLost > 0 -> nMsgLost--; fmsg[w] = false } \
	:: atomic { ph[w] == holds && !unsure[w] && !ending[w] && up(w) && asks(w) && L != HELD(NAME(w)) -> lose(w) } \
	/* time is over for a client that hangs; its clock shows that */ \
	:: atomic { hung[w] && valid[w] -> valid[w] = false } \
	:: atomic { hung[w] -> hung[w] = false; \
		if :: ph[w] == holds && !valid[w] && !ending[w] -> lose(w) :: else fi } \
	:: atomic { nHang > 0 && up(w) -> nHang--; hung[w] = true } \
	:: atomic { nCrash > 0 && ph[w] != dead -> nCrash--; die(w) } \
	/* requests and answers that take too long */ \
	:: atomic { (rq[w] == enq || rq[w] == clm) && nLate > 0 && late[w] == idle && up(w) -> nLate--; late[w] = rq[w]; lateN[w] = NAME(w) } \
	:: atomic { (rq[w] == granted || rq[w] == queued || rq[w] == notqueued || rq[w] == forced) && nLost > 0 && up(w) -> nLost--; \
		unheard[NAME(w)] = unheard[NAME(w)] || rq[w] == granted; \
		rq[w] = (unsure[w] -> clm : enq) } \
	:: atomic { late[w] == enq -> late[w] = idle; enqueue(w, lateN[w], dropped); DROP(w) } \
	:: atomic { late[w] == clm -> late[w] = idle; claim(w, lateN[w], dropped); DROP(w) } \
	:: atomic { late[w] != idle -> late[w] = idle; lateN[w] = 0 }

#define DROP(w)		unheard[lateN[w]] = unheard[lateN[w]] || dropped == granted; dropped = idle; lateN[w] = 0

#ifdef M_POLL_HIDES_MARK
#define SHOWS_MARK(w)	false
#else
#define SHOWS_MARK(w)	(L == MARK(NAME(w)))
#endif
#define GRANT_ENDED(w)	(L != HELD(NAME(w)) && L != MARK(NAME(w)))

#define NAME_STEPS(n) \
	:: atomic { cancels[n] && up(CL(n)) && (L == HELD(n) || L == MARK(n) || L == RES(n) || !isLate(n)) -> \
		cancels[n] = isLate(n); cancel(n) }

/* A hold that nobody has ends with its lease: its client is dead, hangs, or has
 * ended it, and a failover has brought it back. The reservation of a call that
 * is done expires, too: queue.pml has more about these. */
#define mayExpire	((isMark && tooLong) || L != FREE && !has(CL(named)) && (!up(CL(named)) || revived || (isRes && done(CL(named)))))

#ifdef M_ONCE			/* it does not ask again */
#define asksAgain(f)	(!isHeld)
#else
#define asksAgain(f)	true
#endif

/* A stuck holder is there before anybody ends it. */
#define begins		(STUCK == 0 || (ph[0] == holds && named == NAME(0)))

#define FORCE_STEPS(f) \
	:: atomic { fph[f] == 0 && L != FREE && begins -> fn[f] = named; fr[f] = isRes; fg[f] = gen[fn[f]]; fph[f] = 1 } \
	:: atomic { fph[f] == 1 -> force(fn[f], fr[f], fg[f], fph[f]) } \
	:: atomic { fph[f] == 1 && nFlate > 0 && flate == NONE -> nFlate--; flate = fn[f]; flateR = fr[f]; flateG = fg[f] } \
	/* it asks again; only what changes something is a step */ \
	:: atomic { fph[f] == 2 && L != MARK(fn[f]) && L != RES(fn[f]) && asksAgain(f) -> force(fn[f], fr[f], fg[f], fph[f]) }


active proctype system() {
	do
	CALL_STEPS(0)
	CALL_STEPS(1)
#if NW > 2
	CALL_STEPS(2)
#endif
	NAME_STEPS(0)
	NAME_STEPS(1)
	NAME_STEPS(2)
	NAME_STEPS(3)
#if NW > 2
	NAME_STEPS(4)
	NAME_STEPS(5)
#endif
	FORCE_STEPS(0)
#if NF > 1
	FORCE_STEPS(1)
#endif
	:: atomic { flate != NONE -> force(flate, flateR, flateG, ignored); flate = NONE; flateG = 0; flateR = false; ignored = 0 }
	:: atomic { flate != NONE -> flate = NONE; flateG = 0; flateR = false }
	:: atomic { rlate != NONE -> release(rlate); rlate = NONE }
	:: atomic { rlate != NONE -> rlate = NONE }
	:: atomic { mayExpire -> L = FREE; revived = false; if :: sleeps && quiet -> hand_off() :: else fi }
	:: atomic { L == FREE && quiet && sleeps && (inQ[0] || inQ[1]
#if NW > 2
		|| inQ[2]
#endif
		) -> hand_off() }
	/* failovers: another hold is not there, so that only these are to blame */
	:: atomic { nUnmark > 0 && isMark -> nUnmark--; L = HELD(named) }
	:: atomic { nUnack > 0 && lost != FREE && (L == FREE || (isRes && !has(CL(named)))) -> nUnack--;
		if :: isRes -> inQ[CL(named)] = (ph[CL(named)] == waiting) :: else fi;
		L = lost; lost = FREE; revived = true }
	:: else -> break
	od;
	assert(done(0) && done(1)
#if NW > 2
		&& done(2)
#endif
		);
	assert(fph[0] != 1 && fph[0] != 2);
#if NF > 1
	assert(fph[1] != 1 && fph[1] != 2);
#endif
	assert(L == FREE)
}
