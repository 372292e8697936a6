/*
 * The wait queue of one lock, for spin. docs/internals/models/README.md says how to run
 * it and what was seen.
 *
 * One atomic step is one script at the server, or one step of a client.
 * Requests, answers and wake-ups are under way for any time. Those that a client
 * no longer waits for may still be executed, or never. One process chooses among
 * all steps, so "else" is: nothing can happen any more. The graph has no cycle
 * (checked by "pan -l"): each run ends there, and there every waiter must have
 * been served.
 *
 * Not in the model: time (ages, leases and the 10 ms of a short wait are
 * choices), the limit of 128 entries a script and "again", the limit of 64 waits
 * a poll, failover and lost data of the lock itself, several keys, reentrant
 * owners, the local queue of a process.
 */

/* Size: waits and clients; wait w is of client w % NC. */
#ifndef NW
#define NW 3
#endif
#ifndef NC
#define NC 2
#endif
#define CL(w) ((w) % NC)

/* How often what may happen. */
#ifndef GIVEUP
#define GIVEUP 0	/* waits that give up */
#endif
#ifndef LATE
#define LATE 0		/* requests left unanswered that are executed later, or never */
#endif
#ifndef LOST
#define LOST 0		/* lost answers */
#endif
#ifndef MSGLOST
#define MSGLOST 0	/* lost wake-ups */
#endif
#ifndef MSGTWICE
#define MSGTWICE 0	/* wake-ups that come twice */
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef HANG
#define HANG 0
#endif
#ifndef PAUSE
#define PAUSE 0		/* heartbeats of a live client that grow too old */
#endif
#ifndef SUBLOST
#define SUBLOST 0	/* lost subscriptions */
#endif
#ifndef POLLS
#define POLLS 0		/* polls that are sent though nothing calls for one */
#endif
#ifndef SLOW
#define SLOW 0		/* reservations that end under a live client: its claim took too long */
#endif
#ifndef FLUSH
#define FLUSH 0		/* FLUSHALL while nobody holds the lock */
#endif
#ifndef TRY
#define TRY 0		/* calls of TryLock by somebody else */
#endif

/* Grants by message, see docs/internals/grants.md: the waits whose name has a nonce, one
 * bit each. */
#ifndef GRANT
#define GRANT 0
#endif
#define nonced(w)	((GRANT >> (w)) & 1)
#ifndef FORGE
#define FORGE 0		/* forged messages, without the nonce */
#endif
#ifndef FAIL
#define FAIL 0		/* releases whose hand-off fails: the script frees the lock instead */
#endif
#ifndef UNWAIT
#define UNWAIT 0	/* calls of Unlock that wait no longer for the claim's answer */
#endif

/* With TIMERS, polls and the end of a reservation mend what is stuck. Without,
 * no wait may need them: no fault is mended by waiting. */

#define NONE	255
#define FREE	0
#define HELD(w)	(1 + (w))
#define TRIER	NW		/* holds, never waits */
#define RES(w)	(16 + (w))

/* ---- the server ---- */
byte L = FREE;
bool inQ[NW];
byte ticket[NW];		/* the score, and what the client knows of it once known[w] */
byte t;
bool stale[NC];			/* the heartbeat is too old, or there is none */
#ifndef FAIR
bool waitedLong[NW];			/* has waited long enough for a reservation */
#endif
bool counted[NC];		/* the client's last heartbeat found its subscription */

/* ---- on the way ---- */
bool msg[NW];			/* a wake-up for w */
mtype = { idle, enq, clm, granted, queued, notqueued };
mtype rq[NW] = idle;		/* the request of a wait, or its answer */
mtype late[NW] = idle;		/* one that its client no longer waits for */
byte poll[NC];			/* 0 none, 1 asked, 2 answered */
byte list[NC];			/* the waits that it names */
byte claimer[NC];			/* the wait that its answer names, + 1 */
byte latelist[NC];

/* ---- the clients ---- */
mtype = { new, waiting, holds, over, dead };
mtype ph[NW] = new;
bool knows[NW];			/* its ticket */
bool wake[NW];
bool cancelling[NW];		/* with the name of the hold */
bool releasing[NW];
bool unknown[NW];		/* a wake-up for an unknown wait: cancel, without the name of the hold */
bool marked[NW];		/* a message has granted it the lock; its call has not noticed */
bool unsure[NW];		/* holds by a message, and its claim is not answered */
bool past[NW];			/* the claim lease has passed since its name was drawn */
bool down[NC];
bool hung[NC];
bool nosub[NC];
bool pollnow[NC];
byte trier;			/* 0 none, 1 holds */

byte nGiveup = GIVEUP, nLate = LATE, nLost = LOST, nMsgLost = MSGLOST, nMsgTwice = MSGTWICE, nCrash = CRASH, nHang = HANG, nPause = PAUSE;
byte nSub = SUBLOST, nPolls = POLLS, nSlow = SLOW, nFlush = FLUSH, nTry = TRY;
byte nForge = FORGE, nFail = FAIL, nUnwait = UNWAIT;

/* ---- for the properties only ---- */
bool entitled[NW];		/* has a ticket, and has been fresh ever since */
bool putback[NW];		/* by a poll that was overtaken */
bool flushed[NW];		/* its reservation was lost with the data */

byte x, i, chosen;		/* of one step; zero between steps */

/* ---------------------------------------------------------------- scripts */

inline front(me) {		/* x = the first of the queue */
	x = NONE;
	i = 0;
	do
	:: i < NW ->
		if
		:: inQ[i] && (x == NONE || ticket[i] < ticket[x]) -> x = i
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

#define unreachable(c)		(nosub[c] || down[c])

inline publish(w) {
	if
	:: unreachable(CL(w))
	:: else -> msg[w] = true
	fi
}

#ifdef M_WOKEN_IS_GRANTED
#define onlyWoken(w)	true
#else
#define onlyWoken(w)	(!nonced(w))
#endif

/* hand_off passes a lock that is free, or that the caller releases, to the first
 * fresh wait. me: the wait that runs it, which lives and takes. */
inline hand_off(me) {
	L = FREE;
	chosen = NONE;
	do
	:: front(me);
		if
		:: x == NONE -> break
		:: x != NONE && x == me -> chosen = x; break
		:: x != NONE && x != me && stale[CL(x)] -> inQ[x] = false
#ifdef FAIR
		:: x != NONE && x != me && !stale[CL(x)] ->			/* also if no client received it */
#else
		:: x != NONE && x != me && !stale[CL(x)] && unreachable(CL(x)) && counted[CL(x)] ->	/* PUBLISH reaches no client, which counts */
			inQ[x] = false;
			entitled[x] = false
		:: x != NONE && x != me && !stale[CL(x)] && !(unreachable(CL(x)) && counted[CL(x)]) ->
#endif
			chosen = x;
			L = RES(x);
			flushed[x] = false;
			inQ[x] = false;
			publish(x);
			break
#ifndef FAIR
		:: x != NONE && x != me && !stale[CL(x)] && !waitedLong[x] && onlyWoken(x) && !(unreachable(CL(x)) && counted[CL(x)]) ->		/* a short wait: woken only */
			chosen = x;
			waitedLong[x] = true;		/* next time it has waited long enough */
			publish(x);
			break
#endif
		fi
	od;
	x = 0
}

inline take(w) {
	ordered(ticket[w]);
	L = HELD(w);
	flushed[w] = false;
	inQ[w] = false;
	entitled[w] = false
}

inline ordered(mine) {		/* no wait that stayed fresh has an older ticket */
#ifdef FAIR
	i = 0;
	do
	:: i < NW -> assert(!entitled[i] || ticket[i] >= mine); i++
	:: else -> break
	od;
	i = 0
#endif
	skip
}

inline zadd(w) {
	if
	:: inQ[w]
	:: !inQ[w] && knows[w] ->
		inQ[w] = true
#ifdef M_NEW_TICKET
		; t++; ticket[w] = t
#endif
	:: !inQ[w] && !knows[w] ->
		inQ[w] = true;
		t++;
		ticket[w] = t;
		entitled[w] = (ph[w] == waiting && !down[CL(w)])
	fi
}

inline enqueue(w, answer) {
	if
	:: stale[CL(w)] -> stale[CL(w)] = false; counted[CL(w)] = !unreachable(CL(w))
	:: else
	fi;
	if
	:: L == HELD(w) -> answer = granted
	:: L == RES(w) -> take(w); answer = granted
#ifdef FAIR
	:: L == FREE ->
		zadd(w);
		hand_off(w);
		if
		:: chosen == w -> take(w); answer = granted
		:: else -> answer = queued
		fi;
		chosen = 0
#else
	:: L == FREE -> take(w); answer = granted
#endif
	:: else -> zadd(w); answer = queued
	fi
}

inline claim(w, answer) {
	if
	:: L == HELD(w) -> answer = granted
	:: L == RES(w) -> take(w); answer = granted
#ifdef M_CLAIM_ANY
	:: L == FREE -> take(w); answer = granted
	:: L != FREE && L != HELD(w) && L != RES(w) -> zadd(w); answer = queued
#else
#ifdef FAIR
	:: L == FREE && inQ[w] ->
		hand_off(w);
		if
		:: chosen == w -> take(w); answer = granted
		:: else -> answer = queued
		fi;
		chosen = 0
#else
	:: L == FREE && inQ[w] -> take(w); answer = granted
#endif
	:: L == FREE && !inQ[w] ->
#ifndef M_CLAIM_KEEPS
		hand_off(NONE);
#endif
		chosen = 0;
		answer = notqueued
	:: L != FREE && L != HELD(w) && L != RES(w) && inQ[w] -> answer = queued
	:: L != FREE && L != HELD(w) && L != RES(w) && !inQ[w] -> answer = notqueued
#endif
	fi
}

/* release: that of a wait with a nonce names the reservation too. */
#ifdef M_RELEASE_NAMES_HOLD
#define owns(w)		(L == HELD(w))
#else
#define owns(w)		(L == HELD(w) || (nonced(w) && L == RES(w)))
#endif

inline release(w) {
	if
	:: owns(w) -> hand_off(NONE); chosen = 0
	:: owns(w) && nFail > 0 ->
		nFail--;
#ifdef M_FAILS_AFTER_MESSAGE
		hand_off(NONE);
		chosen = 0;
#endif
		L = FREE
	:: else
	fi
}

/* cancel: named reports whether it carries the name of the hold that the wait's
 * requests take. */
inline cancel(w, named) {
	inQ[w] = false;
	if
#ifndef M_CANCEL_REMOVES
	:: L == RES(w) || (named && L == HELD(w)) -> hand_off(NONE)
#ifndef M_CANCEL_KEEPS_WAKEUP
	:: L == FREE -> hand_off(NONE)
#endif
#else
	:: named && L == HELD(w) -> hand_off(NONE)
#endif
	:: else
	fi;
	chosen = 0
}

inline putone(w, waits) {
	if
	:: (waits & (1 << w)) && !inQ[w] && L != RES(w) && L != HELD(w) ->
#ifndef M_NOT_PUT_BACK
		inQ[w] = true;
#ifdef M_NEW_TICKET
		t++; ticket[w] = t;
#endif
		putback[w] = (ph[w] != waiting)
#endif
		skip
	:: else
	fi
}

inline pollscript(c, waits, answer) {
	stale[c] = false;
#ifdef M_COUNTED_ONCE
	counted[c] = counted[c] || !unreachable(c);
#else
	counted[c] = !unreachable(c);
#endif
	putone(0, waits);
#if NW > 1
	putone(1, waits);
#endif
#if NW > 2
	putone(2, waits);
#endif
	if
	:: L == FREE ->
#ifdef M_POLL_TAKES
		if				/* reserves for the client's first wait */
		:: c == CL(0) && inQ[0] -> inQ[0] = false; L = RES(0)
		:: c == CL(1) && inQ[1] && !(c == CL(0) && inQ[0]) -> inQ[1] = false; L = RES(1)
		:: else
		fi;
#else
#ifndef M_POLL_ONLY_HEARTBEATS
		hand_off(NONE);
#endif
#endif
		chosen = 0
	:: else
	fi;
	if
	:: L >= RES(0) && CL(L - RES(0)) == c -> answer = L - RES(0) + 1
#ifndef M_POLL_HIDES_HOLD
	:: L > FREE && L < HELD(NW) && CL(L - HELD(0)) == c -> answer = L - HELD(0) + 1	/* taken by a copy whose answer was lost */
#endif
	:: else -> answer = 0
	fi
}

/* ---------------------------------------------------------------- clients */

#define up(c)	(!down[c] && !hung[c])

inline deliver(w) {		/* a wake-up, or the answer of a poll */
	if
	:: ph[w] == waiting -> wake[w] = true
#ifdef M_UNKNOWN_IGNORED
	:: else
#else
#ifdef M_FORGOTTEN
	:: ph[w] != waiting && ph[w] != dead -> unknown[w] = true
#else
	:: ph[w] != waiting && ph[w] != dead && !unsure[w] -> unknown[w] = true
	:: unsure[w]			/* known until its claim is answered */
#endif
	:: ph[w] == dead
#endif
	fi
}

#ifdef M_FROM_RECEIPT		/* validity counts from the receipt of the message */
#define valid(w)	true
#else
#define valid(w)	(!past[w])
#endif

inline message(w) {		/* with the nonce, if the wait has one */
	if
	:: nonced(w) && ph[w] == waiting && valid(w) -> marked[w] = true
	:: else
	fi;
	deliver(w)
}

/* A cancel follows the release of a wait that left a request behind. */
#ifdef M_RELEASE_ONLY
#define indeterminate(w)	false
#else
#define indeterminate(w)	(late[w] != idle)
#endif

/* lose ends a hold by message. Its release names the reservation too. */
inline lose(w) {
	unsure[w] = false;
	ph[w] = over;
	if
	:: rq[w] == clm -> rq[w] = idle		/* it was not sent yet */
	:: true
	fi;
	leave(w);
	releasing[w] = true;
	cancelling[w] = indeterminate(w)
}

inline leave(w) {		/* nobody waits for the answer any more */
	if
	:: (rq[w] == enq || rq[w] == clm) && late[w] == idle -> late[w] = rq[w]
	:: else
	fi;
	rq[w] = idle;
	wake[w] = false;
	marked[w] = false;
	entitled[w] = false
}

#define holding(w)	(ph[w] == holds && !flushed[w])

inline exclusive() {
	assert((trier + holding(0)
#if NW > 1
		+ holding(1)
#endif
#if NW > 2
		+ holding(2)
#endif
		) <= 1)
}

inline die(w) {
	if
	:: ph[w] != over -> ph[w] = dead
	:: else
	fi;
	leave(w);
	msg[w] = false;
	cancelling[w] = false; releasing[w] = false; unknown[w] = false; unsure[w] = false;
	knows[w] = false
}

inline disentitle(c) {
	i = 0;
	do
	:: i < NW ->
		if
		:: CL(i) == c -> entitled[i] = false
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* A wait that sleeps, of a client that could poll for it. */
#ifdef LIST_BUSY
#define listed(w)	(ph[w] == waiting && knows[w])
#else
#define listed(w)	(ph[w] == waiting && knows[w] && rq[w] == idle)
#endif
#define asleep(w)	(listed(w) && rq[w] == idle && !wake[w] && !msg[w])
#define busy(w)		(msg[w] || wake[w] || rq[w] != idle || cancelling[w] || releasing[w] || unknown[w])
#if NW == 1
#define quiet		(!busy(0))
#elif NW == 2
#define quiet		(!busy(0) && !busy(1))
#else
#define quiet		(!busy(0) && !busy(1) && !busy(2))
#endif
#define calls(w,c)	(CL(w) == c && asleep(w) && \
	((L == FREE && quiet) || (!inQ[w] && L != RES(w)) || L == RES(w) || stale[c] || pollnow[c]))

#ifdef TIMERS
#define timers	true
#else
#define timers	false
#endif

#if NW == 1
#define called(c)	calls(0,c)
#define LISTED(c)	((CL(0) == c && listed(0)))
#elif NW == 2
#define called(c)	(calls(0,c) || calls(1,c))
#define LISTED(c)	((CL(0) == c && listed(0)) | ((CL(1) == c && listed(1)) << 1))
#else
#define called(c)	(calls(0,c) || calls(1,c) || calls(2,c))
#define LISTED(c)	((CL(0) == c && listed(0)) | ((CL(1) == c && listed(1)) << 1) | ((CL(2) == c && listed(2)) << 2))
#endif

#ifdef M_SUBSCRIBE_AFTER
#define mayStart(c)	true
#else
#define mayStart(c)	(!nosub[c])
#endif

/* A cancel is repeated while a request may still be executed; so is one for a
 * hold that leaves such a request behind. (Only those that find something are
 * steps, and the last one.) */
#ifdef M_CANCEL_ONCE
#define again(w)	true
#define done(w)		true
#else
#define again(w)	(inQ[w] || L == RES(w) || L == HELD(w) || late[w] == idle)
#define done(w)		(late[w] == idle)
#endif

#ifdef ONE_SCRIPT		/* a woken waiter sends enqueue again, there is no claim */
#define CLAIM(w, answer)	enqueue(w, answer)
#else
#define CLAIM(w, answer)	claim(w, answer)
#endif

#define WAIT_STEPS(w) \
	/* the call */ \
	:: atomic { ph[w] == new && up(CL(w)) && mayStart(CL(w)) -> ph[w] = waiting; rq[w] = enq } \
	:: atomic { rq[w] == enq -> enqueue(w, rq[w]) } \
	:: atomic { rq[w] == clm -> CLAIM(w, rq[w]) } \
	:: atomic { rq[w] == granted && up(CL(w)) -> rq[w] = idle; wake[w] = false; marked[w] = false; knows[w] = false; unsure[w] = false; \
		ph[w] = holds; exclusive() } \
	:: atomic { rq[w] == queued && !unsure[w] && up(CL(w)) -> rq[w] = idle; knows[w] = true } \
	:: atomic { rq[w] == notqueued && !unsure[w] && up(CL(w)) -> rq[w] = enq } \
	:: atomic { ph[w] == waiting && rq[w] == idle && wake[w] && !(marked[w] && valid(w)) && up(CL(w)) -> \
		wake[w] = false; marked[w] = false; rq[w] = clm } \
	/* a grant by message; its claim is the first renewal */ \
	:: atomic { ph[w] == waiting && rq[w] == idle && marked[w] && valid(w) && up(CL(w)) -> \
		wake[w] = false; marked[w] = false; knows[w] = false; unsure[w] = true; ph[w] = holds; rq[w] = clm; exclusive() } \
	:: atomic { (rq[w] == queued || rq[w] == notqueued) && unsure[w] && up(CL(w)) -> CLAIM_LOST(w) } \
	:: atomic { nonced(w) && !past[w] && (ph[w] == waiting || unsure[w]) -> past[w] = true; \
		if :: unsure[w] && !valid(w) -> lose(w) :: else fi } \
	:: atomic { unsure[w] && nUnwait > 0 && up(CL(w)) -> nUnwait--; lose(w) } \
	:: atomic { nForge > 0 && ph[w] != new && up(CL(w)) -> nForge--; FORGED(w) } \
	/* its end */ \
	:: atomic { ph[w] == holds && !unsure[w] && up(CL(w)) -> ph[w] = over; releasing[w] = true; cancelling[w] = indeterminate(w) } \
	:: atomic { ph[w] == waiting && nGiveup > 0 && up(CL(w)) -> nGiveup--; leave(w); knows[w] = false; ph[w] = over; cancelling[w] = true } \
	:: atomic { releasing[w] && up(CL(w)) -> releasing[w] = false; release(w) } \
	:: atomic { cancelling[w] && up(CL(w)) && again(w) -> cancelling[w] = !done(w); cancel(w, true) } \
	:: atomic { unknown[w] && up(CL(w)) -> unknown[w] = false; UNKNOWN_CANCEL(w) } \
	/* wake-ups */ \
	:: atomic { msg[w] && up(CL(w)) -> msg[w] = false; message(w) } \
	:: atomic { msg[w] && up(CL(w)) && nMsgTwice > 0 -> nMsgTwice--; message(w) } \
	:: atomic { msg[w] && nMsgLost > 0 -> nMsgLost--; msg[w] = false } \
	/* requests and answers that take too long; the next request says all that the client knows */ \
	:: atomic { (rq[w] == enq || rq[w] == clm) && nLate > 0 && late[w] == idle && up(CL(w)) -> nLate--; late[w] = rq[w]; rq[w] = (unsure[w] -> clm : enq) } \
	:: atomic { (rq[w] == granted || rq[w] == queued || rq[w] == notqueued) && nLost > 0 && up(CL(w)) -> nLost--; rq[w] = (unsure[w] -> clm : enq) } \
	:: atomic { late[w] == enq && (timers || ph[w] != waiting) -> late[w] = idle; enqueue(w, dropped); dropped = idle } \
	:: atomic { late[w] == clm && (timers || ph[w] != waiting) -> late[w] = idle; CLAIM(w, dropped); dropped = idle } \
	:: atomic { late[w] != idle -> late[w] = idle } \
	/* time */ \
	:: atomic { L == HELD(w) && down[CL(w)] -> L = FREE } \
	:: atomic { L == RES(w) && mayEnd(w) -> RESERVATION_END(w) }

#ifdef M_FORGED
#define FORGED(w)	message(w)
#else
#define FORGED(w)	deliver(w)
#endif
#ifdef M_CLAIM_LOST_IGNORED
#define CLAIM_LOST(w)	rq[w] = idle; unsure[w] = false; flushed[w] = false; exclusive()
#else
#define CLAIM_LOST(w)	MAY_LOSE; lose(w); cancelling[w] = true
#endif
#ifdef MAYLOSE			/* to see two owners, in a mutant */
#define MAY_LOSE	skip
#else				/* only lost data takes the reservation away from a valid hold */
#define MAY_LOSE	assert(nFlush < FLUSH)
#endif

#ifdef M_UNKNOWN_FREES
#define UNKNOWN_CANCEL(w)	cancel(w, true)
#else
#define UNKNOWN_CANCEL(w)	cancel(w, false)
#endif

#ifdef M_RESERVED_FOR_EVER
#define mayEnd(w)		false
#define STUCK_RESERVATION	false
#else
#define mayEnd(w)		(down[CL(w)] || ((hung[CL(w)] || nSlow > 0) && (past[w] || !nonced(w))))
#define STUCK_RESERVATION	(timers && L >= RES(0))
#endif
#define RESERVATION_END(w)	L = FREE; entitled[w] = false; if :: up(CL(w)) -> nSlow-- :: else fi

#ifdef M_NO_POLL
#define mayPoll(c)	false
#else
#define mayPoll(c)	((timers && called(c)) || pollnow[c])
#endif
#ifdef M_NO_POLL_AT_SUBSCRIBE
#define resubscribed	false
#else
#define resubscribed	true
#endif

#define CLIENT_STEPS(c) \
	:: atomic { poll[c] == 0 && up(c) && LISTED(c) != 0 && (mayPoll(c) || nPolls > 0) -> \
		if :: mayPoll(c) :: else -> nPolls-- fi; pollnow[c] = false; list[c] = LISTED(c); poll[c] = 1 } \
	:: atomic { poll[c] == 1 -> pollscript(c, list[c], claimer[c]); list[c] = 0; poll[c] = 2 } \
	:: atomic { poll[c] == 2 && up(c) -> \
		poll[c] = 0; x = claimer[c]; claimer[c] = 0; if :: x > 0 -> x--; deliver(x) :: else fi; x = 0 } \
	:: atomic { poll[c] == 2 && nLost > 0 && up(c) -> nLost--; poll[c] = 0; claimer[c] = 0 } \
	:: atomic { poll[c] == 1 && nLate > 0 && latelist[c] == 0 && up(c) -> nLate--; latelist[c] = list[c]; list[c] = 0; poll[c] = 0 } \
	:: atomic { latelist[c] != 0 -> pollscript(c, latelist[c], latelist[c]); latelist[c] = 0 } \
	:: atomic { latelist[c] != 0 -> latelist[c] = 0 } \
	:: atomic { nCrash > 0 && !down[c] -> nCrash--; down[c] = true; hung[c] = false; nosub[c] = true; pollnow[c] = false; DIE(c); \
		if :: poll[c] == 1 && latelist[c] == 0 -> latelist[c] = list[c] :: else fi; poll[c] = 0; list[c] = 0; claimer[c] = 0 } \
	:: atomic { nHang > 0 && up(c) -> nHang--; hung[c] = true } \
	:: atomic { hung[c] -> hung[c] = false } \
	:: atomic { !stale[c] && (!up(c) || nPause > 0) -> if :: up(c) -> nPause-- :: else fi; stale[c] = true; disentitle(c) } \
	:: atomic { nSub > 0 && !nosub[c] && !down[c] -> nSub--; nosub[c] = true; DROP_MESSAGES(c) } \
	:: atomic { nosub[c] && up(c) -> nosub[c] = false; pollnow[c] = resubscribed }

#if NW == 1
#define DIE(c)		if :: CL(0) == c -> die(0) :: else fi
#define DROP_MESSAGES(c)	if :: CL(0) == c -> msg[0] = false :: else fi
#elif NW == 2
#define DIE(c)		if :: CL(0) == c -> die(0) :: else fi; if :: CL(1) == c -> die(1) :: else fi
#define DROP_MESSAGES(c)	if :: CL(0) == c -> msg[0] = false :: else fi; if :: CL(1) == c -> msg[1] = false :: else fi
#else
#define DIE(c)		if :: CL(0) == c -> die(0) :: else fi; if :: CL(1) == c -> die(1) :: else fi; if :: CL(2) == c -> die(2) :: else fi
#define DROP_MESSAGES(c)	if :: CL(0) == c -> msg[0] = false :: else fi; if :: CL(1) == c -> msg[1] = false :: else fi; \
			if :: CL(2) == c -> msg[2] = false :: else fi
#endif

mtype dropped = idle;

#define ended(w)	(ph[w] == over || ph[w] == dead)

inline finished(w) {
	assert(ended(w));				/* nobody is left waiting */
	assert(!inQ[w] || down[CL(w)] || putback[w])	/* what is left ends with the queue, which nobody polls any more */
}

active proctype system() {
	byte n;
	n = 0;
	do
	:: n < NC ->
		stale[n] = true;
#ifdef M_SUBSCRIBE_AFTER
		nosub[n] = true;
#endif
		n++
	:: else -> n = 0; break
	od;
	do
	WAIT_STEPS(0)
#if NW > 1
	WAIT_STEPS(1)
#endif
#if NW > 2
	WAIT_STEPS(2)
#endif
	CLIENT_STEPS(0)
#if NC > 1
	CLIENT_STEPS(1)
#endif
#if NC > 2
	CLIENT_STEPS(2)
#endif
	:: atomic { nTry > 0 && trier == 0 ->			/* TryLock: acquire, with an immediate answer */
		nTry--;
		if
		:: L == FREE ->
#if defined(FAIR) && !defined(M_TRY_BARGES)
			hand_off(NONE);
#else
			chosen = NONE;
#endif
			if
			:: chosen == NONE -> chosen = 0; ordered(NONE); L = HELD(TRIER); trier = 1; exclusive()
			:: else
			fi;
			chosen = 0
		:: else
		fi }
	:: atomic { trier == 1 -> trier = 0; release(TRIER) }
	:: atomic { nFlush > 0 && (L == FREE || L >= RES(0)) -> nFlush--; n = 0;
		do
		:: n < NW -> if :: L == RES(n) -> flushed[n] = true :: else fi; inQ[n] = false; entitled[n] = false; n++
		:: else -> n = 0; break
		od;
		L = FREE;
		stale[0] = true;
#if NC > 1
		stale[1] = true;
#endif
#if NC > 2
		stale[2] = true
#endif
		}
	:: else ->
		if
		:: STUCK_RESERVATION ->		/* nobody will claim it: its wait is over, and the wake-up was lost */
			assert(ended(L - RES(0)));
			L = FREE
		:: else -> break
		fi
	od;
	finished(0);
#if NW > 1
	finished(1);
#endif
#if NW > 2
	finished(2);
#endif
	assert(L == FREE)
}
