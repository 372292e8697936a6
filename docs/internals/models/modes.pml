/*
 * Fair and unfair callers of one lock, for spin, as in a deploy that turns
 * WithFair on or off. README.md says how to run it and what was seen,
 * docs/internals/modes-design.md what it is about.
 *
 * The queue is that of queue.pml, reduced: each call is a client, messages may
 * be lost, clients may crash, a request may be executed late. FAIRS has a bit
 * for each call that is fair. The graph has no cycle (pan -l), so each run
 * ends, and there every call was served.
 *
 * Checked as well:
 *   no call fails because of the other mode;
 *   an older waiter is overtaken only while the lock is free, never by a
 *   hand-off. That is after the end of a lease, or while a young unfair waiter
 *   was only woken, once for each of them;
 *   a fair first waiter is overtaken only by SET NX, the first request of an
 *   unfair call;
 *   once no unfair call is left, the order is strict.
 *
 * Mutants: M_CONFLICT  the other mode is an error
 *          M_HEAD_IGNORED  an unfair waiter overtakes a fair one
 *          M_OWN_MODE_FIRST  a hand-off prefers the mode of the last holder
 *          M_KEY_MODE  the key keeps its mode while it is held or waited for
 */
#ifndef NW
#define NW 3
#endif
#ifndef FAIRS
#define FAIRS 5		/* calls 0 and 2 */
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef MSGLOST
#define MSGLOST 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef TRY
#define TRY 0		/* calls of TryLock, of either mode */
#endif

#define FREE	0
#define NONE	255
#define HELD(w)	(1 + (w))
#define TRIER	NW
#define RES(w)	(16 + (w))
#define isFair(w)	(((FAIRS) >> (w)) & 1)

byte L = FREE;
bool inQ[NW];
byte ticket[NW];
byte t;
bool wokenOnce[NW];	/* an unfair waiter that is no longer young */
bool lastFair;		/* the mode of the last holder */

mtype = { idle, enq, clm, granted, queued, notqueued, failed };
mtype = { new, waiting, holds, over, dead };
mtype ph[NW] = new;
mtype rq[NW] = idle;
mtype late[NW] = idle;
mtype dropped = idle;
bool wake[NW];
bool msg[NW];
bool cancels[NW];
byte trier;
bool trierFair;

byte nCrash = CRASH, nMsgLost = MSGLOST, nLate = LATE, nTry = TRY;
byte x, i, chosen;

#define older(o, w)	(inQ[o] && ph[o] == waiting && (o) != (w) && ((w) == NONE || ticket[w] == 0 || ticket[o] < ticket[w]))
#define unfairLeft(w)	(!isFair(w) && ph[w] != over && ph[w] != dead)
#define allFair		(!unfairLeft(0) && !unfairLeft(1) && !unfairLeft(2) && !(trier > 0 && !trierFair))

/* ordered checks a grant, to the call w or to TryLock. */
inline ordered(w, setnx) {
	i = 0;
	do
	:: i < NW ->
		assert(!older(i, w) || L == FREE);
		assert(!older(i, w) || !allFair);
		i++
	:: else -> break
	od;
	front(w);
	assert(setnx || L != FREE || x == NONE || x == w || !isFair(x) || ph[x] != waiting);
	x = 0;
	i = 0
}

inline front(me) {
	x = NONE;
	i = 0;
	do
	:: i < NW ->
		if
#ifdef M_OWN_MODE_FIRST
		:: inQ[i] && (x == NONE || (isFair(i) == lastFair && isFair(x) != lastFair) || \
			((isFair(i) == lastFair || isFair(x) != lastFair) && ticket[i] < ticket[x])) -> x = i
#else
		:: inQ[i] && (x == NONE || ticket[i] < ticket[x]) -> x = i
#endif
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline hand_off(me) {
	L = FREE;
	chosen = NONE;
	do
	:: front(me);
		if
		:: x == NONE -> break
		:: x != NONE && x == me -> chosen = x; break
		:: x != NONE && x != me && ph[x] == dead -> inQ[x] = false
		:: x != NONE && x != me && ph[x] != dead -> chosen = x; L = RES(x); inQ[x] = false; msg[x] = true; break
		:: x != NONE && x != me && ph[x] != dead && !isFair(x) && !wokenOnce[x] -> chosen = x; wokenOnce[x] = true; msg[x] = true; break
		fi
	od;
	x = 0
}

#ifdef M_KEY_MODE		/* the mode that the key had when somebody held it or waited for it */
bool keyFair;
#define actsFair(w)	(keyFair)
#define SETMODE(w)	if :: L == FREE && !inQ[0] && !inQ[1] && !inQ[2] -> keyFair = isFair(w) :: else fi
#else
#define actsFair(w)	isFair(w)
#define SETMODE(w)	skip
#endif

inline take(w) {
	ordered(w, false);
	L = HELD(w);
	lastFair = isFair(w);
	inQ[w] = false
}

/* The first waiter decides: if it is fair, nobody overtakes it. */
#if defined(M_HEAD_IGNORED)
#define headIsFair(w)	false
#elif defined(M_KEY_MODE)
#define headIsFair(w)	(x != NONE && x != w && keyFair)
#else
#define headIsFair(w)	(x != NONE && x != w && isFair(x))
#endif

#ifdef M_CONFLICT
#define conflicts(w)	((L >= RES(0) && isFair(L - RES(0)) != isFair(w)) || (L > FREE && L < HELD(NW) && isFair(L - HELD(0)) != isFair(w)))
#else
#define conflicts(w)	false
#endif

inline take_free(w, answer) {
	front(w);
	if
	:: !actsFair(w) && !headIsFair(w) -> x = 0; take(w); answer = granted
	:: else ->
		x = 0;
		hand_off(w);
		if
		:: chosen == w -> take(w); answer = granted
		:: else -> answer = queued
		fi;
		chosen = 0
	fi
}

inline join(w) {
	if
	:: inQ[w] || ph[w] != waiting
	:: else ->
		inQ[w] = true;
		if :: ticket[w] == 0 -> t++; ticket[w] = t :: else fi
	fi
}

inline enqueue(w, answer) {
	if
	:: L == HELD(w) -> answer = granted
	:: L == RES(w) -> take(w); answer = granted
	:: L != HELD(w) && L != RES(w) && conflicts(w) -> answer = failed
	:: L == FREE && ph[w] == waiting ->
		SETMODE(w);
		front(w);
		if
		:: !actsFair(w) && !headIsFair(w) -> x = 0; take(w); answer = granted
		:: else -> x = 0; join(w); take_free(w, answer)
		fi
	:: else -> join(w); answer = queued
	fi
}

inline claim(w, answer) {
	if
	:: L == HELD(w) -> answer = granted
	:: L == RES(w) -> take(w); answer = granted
	:: L != HELD(w) && L != RES(w) && conflicts(w) -> answer = failed
	:: L == FREE && inQ[w] -> take_free(w, answer)
	:: L == FREE && !inQ[w] -> hand_off(NONE); chosen = 0; answer = notqueued
	:: else ->
		if
		:: inQ[w] -> answer = queued
		:: else -> answer = notqueued
		fi
	fi
}

inline leave(w) {
	if
	:: (rq[w] == enq || rq[w] == clm) && late[w] == idle -> late[w] = rq[w]
	:: else
	fi;
	rq[w] = idle; wake[w] = false
}

#define asleep(w)	(ph[w] == waiting && rq[w] == idle && !wake[w] && !msg[w])
#define busy(w)		(ph[w] != dead && (msg[w] || wake[w] || rq[w] != idle || cancels[w]))
#define quiet		(!busy(0) && !busy(1) && !busy(2))

#define STEPS(w) \
	/* the first request of an unfair call is SET NX */ \
	:: atomic { ph[w] == new -> ph[w] = waiting; \
		if \
		:: !isFair(w) && L == FREE -> SETMODE(w); ordered(w, true); L = HELD(w); lastFair = false; rq[w] = granted \
		:: else -> rq[w] = enq \
		fi } \
	:: atomic { rq[w] == enq -> enqueue(w, rq[w]) } \
	:: atomic { rq[w] == clm -> claim(w, rq[w]) } \
	:: atomic { rq[w] == granted && ph[w] == waiting -> rq[w] = idle; wake[w] = false; ph[w] = holds } \
	:: atomic { rq[w] == queued -> rq[w] = idle } \
	:: atomic { rq[w] == notqueued -> rq[w] = enq } \
	:: atomic { rq[w] == failed -> assert(false) } /* a call that may wait fails */ \
	:: atomic { ph[w] == waiting && rq[w] == idle && wake[w] -> wake[w] = false; rq[w] = clm } \
	:: atomic { msg[w] && ph[w] != dead -> msg[w] = false; if :: ph[w] == waiting -> wake[w] = true :: else fi } \
	:: atomic { msg[w] && nMsgLost > 0 -> nMsgLost--; msg[w] = false } \
	:: atomic { asleep(w) && (L == RES(w) || L == HELD(w) || (L == FREE && quiet)) -> \
		if :: L == FREE -> hand_off(NONE); chosen = 0 :: else -> wake[w] = true fi } \
	:: atomic { ph[w] == holds -> ph[w] = over; cancels[w] = (late[w] != idle); \
		if :: L == HELD(w) -> hand_off(NONE); chosen = 0 :: else fi } \
	:: atomic { cancels[w] && (L == HELD(w) || L == RES(w) || late[w] == idle) -> cancels[w] = (late[w] != idle); inQ[w] = false; \
		if :: L == HELD(w) || L == RES(w) -> hand_off(NONE); chosen = 0 :: else fi } \
	:: atomic { (rq[w] == enq || rq[w] == clm) && nLate > 0 && late[w] == idle && ph[w] != dead -> nLate--; late[w] = rq[w] } \
	:: atomic { late[w] == enq -> late[w] = idle; enqueue(w, dropped); dropped = idle } \
	:: atomic { late[w] == clm -> late[w] = idle; claim(w, dropped); dropped = idle } \
	:: atomic { late[w] != idle -> late[w] = idle } \
	:: atomic { nCrash > 0 && ph[w] != dead && ph[w] != over -> nCrash--; leave(w); ph[w] = dead; msg[w] = false; cancels[w] = false } \
	/* the end of a lease */ \
	:: atomic { (L == HELD(w) || L == RES(w)) && ph[w] == dead -> L = FREE }

active proctype system() {
	do
	STEPS(0)
	STEPS(1)
	STEPS(2)
	:: atomic { nTry > 0 && trier == 0 -> nTry--; trierFair = !trierFair;
		if
		:: L == FREE && !trierFair -> trier = 1; ordered(NONE, true); L = HELD(TRIER)
		:: L == FREE && trierFair -> hand_off(NONE);
			if
			:: chosen == NONE -> ordered(NONE, false); L = HELD(TRIER); trier = 1
			:: else
			fi;
			chosen = 0
		:: else		/* busy */
		fi }
	:: atomic { trier == 1 -> trier = 0; hand_off(NONE); chosen = 0 }
	:: else -> break
	od;
	i = 0;
	do
	:: i < NW -> assert(ph[i] == over || ph[i] == dead); i++
	:: else -> break
	od;
	assert(L == FREE)
}
