/*
 * The task queue, for spin. README.md says how to run it and what was seen.
 *
 * Two workers, three tasks, two keys: tasks 0 and 1 share key 0, in that
 * order, task 2 has key 1. One atomic step is one script, or one step of a
 * client. Requests, answers and wake-ups are under way as long as they like.
 * One process chooses among all steps, so "else" is: nothing can happen any
 * more. The graph has no cycle (pan -l), so each run ends there, and there
 * every task must be done.
 *
 * A worker has a delivery until it settles it or loses it. Its lease
 * ends at the server only after that: validity is shorter than the lease.
 *
 * Not in the model: time, renewals (a lease may end at any moment anyway),
 * batches of 64, payloads, dead letters, and a late copy of Enqueue after its
 * task is done. A doubled message is a late copy; a doubled wake-up changes
 * nothing, as the worker only asks.
 *
 * Mutants: M_BY_ID  a settle names the task, not the delivery
 *          M_NO_NUMBER  a copy of a receive takes again
 *          M_NOT_RETURNED  nobody undoes an unanswered receive
 *          M_RETURNS_ANY  that undoes the deliveries of others
 *          M_UNDOES_ANSWERED  the next receive says only whether the one before
 *          it was answered
 *          M_KEY_FREED  a retry frees its key
 *          M_NEXT_SLEEPS  the next of a key wakes nobody
 *          M_LATE_VALIDITY  validity counts from the answer
 *          M_ENQUEUE_AGAIN  a copy of Enqueue puts the task again
 *          M_BUSY_IDLE  a worker that got all it wanted stays idle
 *          M_LEAVES_SILENTLY  a worker that stops stays idle
 *          M_LEAVES_WAKE  it passes no wake-up on
 */

/* How many tasks a worker may have. */
#ifndef WANT
#define WANT 1
#endif
/* How often what may happen. */
#ifndef LATE
#define LATE 0		/* copies of receives that are executed later, or never */
#endif
#ifndef SLATE
#define SLATE 0		/* the same for settles */
#endif
#ifndef ELATE
#define ELATE 0		/* the same for Enqueue */
#endif
#ifndef LOST
#define LOST 0		/* lost answers to receives */
#endif
#ifndef SLOST
#define SLOST 0		/* lost answers to settles */
#endif
#ifndef MSGLOST
#define MSGLOST 0	/* lost wake-ups */
#endif
#ifndef ENDS
#define ENDS 0		/* leases that end under a live worker */
#endif
#ifndef NACK
#define NACK 0		/* deliveries that fail, or are released */
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef LEAVE
#define LEAVE 0		/* workers that stop */
#endif

/* With TIMERS, polls and ends of leases mend what is stuck. Without, no worker
 * may need them. */
#ifdef TIMERS
#define timers true
#else
#define timers false
#endif

#define NONE	255
#define KEY(t)	((t) / 2)
#define AT(w, t) ((w) * 3 + (t))

/* ---- the server ---- */
#define ABSENT	0
#define DUE	1
#define BEHIND	2	/* its key */
#define LEASED	3
#define DONE	4
byte st[3];
byte fence[3];		/* of the delivery that has the lease */
bool over[3];		/* the lease has ended, and nobody has returned the task yet */
byte head[2] = NONE;
byte drawn;		/* a fence: the lowest one that nobody knows any more */
byte seen[2];		/* number of the last receive of a worker */
byte got[6];		/* fences that it drew */
bool idle[2];

/* ---- on the way ---- */
#define asked	1
#define answered 2
byte rq[2];
byte rqack[2];		/* the request says which one was answered last */
byte ans[6];
byte lateN[2];		/* a receive that its client no longer waits for */
byte lateack[2];
byte lateV[3];		/* a settle */
byte lateF[3];
bool lateE[3];		/* an enqueue */
bool msg[2];

/* ---- the clients ---- */
byte n[2];
byte ack[2];		/* the last receive that was answered */
bool ask[2] = true;	/* should ask */
byte has[6];		/* fence of a delivery that it has */
byte verb_of[6];		/* verb that it settles with, until that is answered */
byte fence_of[6];
#define ACK	1
#define RETRY	2
bool down[2];
bool leaving[2];
bool gone[2];
byte next_task;

byte nLate = LATE, nSlate = SLATE, nElate = ELATE, nLost = LOST, nSlost = SLOST, nMsgLost = MSGLOST, nEnds = ENDS, nNack = NACK;
byte nCrash = CRASH, nLeave = LEAVE;
byte c, x;		/* of one step */

#define up(w)	(!down[w] && !gone[w])
#define used(w)	((has[AT(w, 0)] + verb_of[AT(w, 0)] > 0) + (has[AT(w, 1)] + verb_of[AT(w, 1)] > 0) + (has[AT(w, 2)] + verb_of[AT(w, 2)] > 0))
#define free(w)	(used(w) < WANT)
#define held(t) (has[AT(0, t)] + has[AT(1, t)] > 0)

/* wake notifies an idle worker. PUBLISH reports that no client receives it. */
inline wake() {
	if
	:: idle[0] -> idle[0] = false; if :: down[0] -> if :: idle[1] -> idle[1] = false; msg[1] = !down[1] :: else fi :: else -> msg[0] = true fi
	:: idle[1] -> idle[1] = false; if :: down[1] -> if :: idle[0] -> idle[0] = false; msg[0] = !down[0] :: else fi :: else -> msg[1] = true fi
	:: else
	fi
}

#ifdef M_NEXT_SLEEPS
#define FOLLOW_WAKE	skip
#else
#define FOLLOW_WAKE	wake()
#endif

/* follow makes the next of the key due. */
inline follow(t) {
	if
	:: KEY(t) == 0 && st[0] == BEHIND -> st[0] = DUE; head[0] = 0; FOLLOW_WAKE
	:: KEY(t) == 0 && st[0] != BEHIND && st[1] == BEHIND -> st[1] = DUE; head[0] = 1; FOLLOW_WAKE
	:: else -> head[KEY(t)] = NONE
	fi
}
/* put_back makes a task due again. It stays the head of its key. */
inline put_back(t) {
	st[t] = DUE; fence[t] = 0; over[t] = false;
#ifdef M_KEY_FREED
	follow(t);
#endif
}

inline enqueue(t) {
	if
#ifdef M_ENQUEUE_AGAIN
	:: st[t] != DONE ->
#else
	:: st[t] == ABSENT ->
#endif
		if
		:: head[KEY(t)] == NONE || head[KEY(t)] == t -> head[KEY(t)] = t; st[t] = DUE; fence[t] = 0; wake()
#ifdef DELAY
		:: head[KEY(t)] != NONE && t == 1 -> st[t] = DUE; wake()	/* delayed: has not joined its key */
#else
		:: head[KEY(t)] != NONE && head[KEY(t)] != t -> st[t] = BEHIND
#endif
		fi
	:: else
	fi
}

#ifdef M_RETURNS_ANY
#define OF_RECEIVE(w, t)	true
#else
#define OF_RECEIVE(w, t)	(fence[t] == got[AT(w, t)])
#endif

/* undo returns what an unanswered receive took. */
inline undo(w, t) {
	if
	:: got[AT(w, t)] > 0 && st[t] == LEASED && OF_RECEIVE(w, t) -> put_back(t)
	:: else
	fi
}

/* Fences are only compared for equality. */
#define KNOWN(f)	(fence[0] == f || fence[1] == f || fence[2] == f || lateF[0] == f || lateF[1] == f || lateF[2] == f || KNOWS(0, f) || KNOWS(1, f))
#define KNOWS(w, f)	(KNOWS_OF(w, 0, f) || KNOWS_OF(w, 1, f) || KNOWS_OF(w, 2, f))
#define KNOWS_OF(w, t, f) (got[AT(w, t)] == f || ans[AT(w, t)] == f || has[AT(w, t)] == f || fence_of[AT(w, t)] == f)
inline draw() {
	drawn = 1;
	do
	:: KNOWN(drawn) -> drawn++
	:: else -> break
	od
}

/* join lets a delayed task join its key, whatever the receive takes. */
inline join(t, want) {
	if
	:: want > 0 && st[t] == DUE && head[KEY(t)] == NONE -> head[KEY(t)] = t
#ifndef M_KEY_FREED
	:: want > 0 && st[t] == DUE && head[KEY(t)] != t && head[KEY(t)] != NONE -> st[t] = BEHIND
#endif
	:: else
	fi
}

/* take delivers a task. */
inline take(w, t, want) {
	if
	:: st[t] == DUE && c < want && head[KEY(t)] == t ->
		draw(); st[t] = LEASED; fence[t] = drawn; got[AT(w, t)] = drawn; drawn = 0; c++
	:: else
	fi
}

inline again(w, t) {
	if
	:: got[AT(w, t)] > 0 && !(st[t] == LEASED && fence[t] == got[AT(w, t)] && !over[t]) -> got[AT(w, t)] = 0
	:: else
	fi
}

inline give_up(t) { if :: over[t] -> put_back(t) :: else fi }
/* A receive that was never executed must not undo the one before it. */
#ifdef M_UNDOES_ANSWERED
#define UNANSWERED(w, number, answered_last)	(answered_last < number - 1)
#else
#define UNANSWERED(w, number, answered_last)	(answered_last < seen[w])
#endif

inline receive(w, number, answered_last, want) {
	if
#ifdef M_NO_NUMBER
	:: false
#else
	:: number < seen[w]
	:: number == seen[w] -> again(w, 0); again(w, 1); again(w, 2)
#endif
	:: else ->
#ifndef M_NOT_RETURNED
		if :: UNANSWERED(w, number, answered_last) -> undo(w, 0); undo(w, 1); undo(w, 2) :: else fi;
#endif
		seen[w] = number;
		got[AT(w, 0)] = 0; got[AT(w, 1)] = 0; got[AT(w, 2)] = 0;
		give_up(0); give_up(1); give_up(2);
		join(0, want); join(1, want); join(2, want);
		c = 0;
		take(w, 0, want); take(w, 1, want); take(w, 2, want);
#ifdef M_BUSY_IDLE
		idle[w] = want > 0;
#else
		idle[w] = c < want;
#endif
		if
#ifndef M_LEAVES_WAKE
		:: want == 0 && (st[0] == DUE || st[1] == DUE || st[2] == DUE) -> wake()
#endif
		:: else
		fi;
		c = 0
	fi
}

#ifdef M_BY_ID
#define OF_FENCE(t, f)	true
#else
#define OF_FENCE(t, f)	(fence[t] == f)
#endif

inline settle(t, f, verb) {
	if
	:: st[t] == LEASED && OF_FENCE(t, f) && !over[t] ->
		if
		:: verb == ACK ->
#ifndef DELAY
			assert(t != 1 || st[0] == DONE);	/* in order */
#endif
			st[t] = DONE; fence[t] = 0; follow(t)
		:: else -> put_back(t); wake()
		fi
	:: else
	fi
}

/* deliver takes a delivery. Its validity counts from the sending of the receive. */
#ifdef M_LATE_VALIDITY
#define IN_TIME(w, t)	true
#else
#define IN_TIME(w, t)	(st[t] == LEASED && fence[t] == ans[AT(w, t)] && !over[t])
#endif
inline deliver(w, t) {
	if
	:: ans[AT(w, t)] > 0 && IN_TIME(w, t) ->
		has[AT(w, t)] = ans[AT(w, t)];
		assert(has[AT(1 - w, t)] == 0);						/* one delivery of a task */
		assert(KEY(t) != 0 || has[0] + has[3] == 0 || has[1] + has[4] == 0)	/* and of a key */
	:: else
	fi;
	ans[AT(w, t)] = 0
}

/* The client goes on without the answer. */
#define ABANDON(w)	rq[w] = 0; rqack[w] = 0; ask[w] = true; ans[AT(w, 0)] = 0; ans[AT(w, 1)] = 0; ans[AT(w, 2)] = 0

#ifdef M_LEAVES_SILENTLY
#define LEFT(w)		skip
#else
#define LEFT(w)		n[w]++; receive(w, n[w], ack[w], 0)
#endif

/* Numbers of receives are only compared with each other. */
#define RECOUNT(w)	if :: lateN[w] == 0 -> n[w] = n[w] - ack[w]; seen[w] = seen[w] - ack[w]; ack[w] = 0; CLEAR(w) :: else fi
#ifdef M_UNDOES_ANSWERED
#define CLEAR(w)
#else
#define CLEAR(w)	if :: seen[w] == 0 -> got[AT(w, 0)] = 0; got[AT(w, 1)] = 0; got[AT(w, 2)] = 0 :: else fi
#endif

#define FORGET(w)	if :: rq[w] == 0 -> RECOUNT(w) :: else fi

#define WORKER_STEPS(w) \
	:: atomic { ask[w] && rq[w] == 0 && up(w) && !leaving[w] && free(w) -> ask[w] = false; n[w]++; rqack[w] = ack[w]; rq[w] = asked } \
	:: atomic { rq[w] == asked && up(w) -> receive(w, n[w], rqack[w], WANT - used(w)); \
		ans[AT(w, 0)] = got[AT(w, 0)]; ans[AT(w, 1)] = got[AT(w, 1)]; ans[AT(w, 2)] = got[AT(w, 2)]; rq[w] = answered } \
	:: atomic { rq[w] == answered && up(w) -> deliver(w, 0); deliver(w, 1); deliver(w, 2); rq[w] = 0; rqack[w] = 0; ack[w] = n[w]; RECOUNT(w) } \
	:: atomic { rq[w] == answered && nLost > 0 && up(w) -> nLost--; \
		if :: rq[w] = asked :: ABANDON(w) fi } \
	:: atomic { rq[w] == asked && nLate > 0 && lateN[w] == 0 && up(w) -> nLate--; lateN[w] = n[w]; lateack[w] = rqack[w]; \
		if :: skip :: ABANDON(w) fi } \
	:: atomic { lateN[w] > 0 -> receive(w, lateN[w], lateack[w], WANT); lateN[w] = 0; lateack[w] = 0; FORGET(w) } \
	:: atomic { lateN[w] > 0 -> lateN[w] = 0; lateack[w] = 0; FORGET(w) } \
	:: atomic { msg[w] && up(w) -> msg[w] = false; ask[w] = true } \
	:: atomic { msg[w] && nMsgLost > 0 -> nMsgLost--; msg[w] = false } \
	:: atomic { timers && !ask[w] && rq[w] == 0 && up(w) && !leaving[w] && free(w) && \
		(st[0] == DUE || st[1] == DUE || st[2] == DUE || over[0] || over[1] || over[2]) -> ask[w] = true } \
	:: atomic { nCrash > 0 && !down[w] && !down[1 - w] -> nCrash--; down[w] = true; leaving[w] = false; msg[w] = false; \
		has[AT(w, 0)] = 0; has[AT(w, 1)] = 0; has[AT(w, 2)] = 0; verb_of[AT(w, 0)] = 0; verb_of[AT(w, 1)] = 0; verb_of[AT(w, 2)] = 0; ABANDON(w) } \
	/* a worker stops: it undoes what is unanswered, and is no longer idle */ \
	:: atomic { nLeave > 0 && up(w) && !leaving[w] && used(w) == 0 && !down[1 - w] -> nLeave--; leaving[w] = true; \
		if :: rq[w] != 0 -> ABANDON(w) :: else fi } \
	:: atomic { leaving[w] && up(w) -> leaving[w] = false; gone[w] = true; msg[w] = false; LEFT(w) }

#define DELIVERY_STEPS(w, t) \
	:: atomic { has[AT(w, t)] > 0 -> verb_of[AT(w, t)] = ACK; fence_of[AT(w, t)] = has[AT(w, t)]; has[AT(w, t)] = 0 } \
	:: atomic { has[AT(w, t)] > 0 && nNack > 0 -> nNack--; verb_of[AT(w, t)] = RETRY; fence_of[AT(w, t)] = has[AT(w, t)]; has[AT(w, t)] = 0 } \
	:: atomic { has[AT(w, t)] > 0 && nEnds > 0 -> nEnds--; has[AT(w, t)] = 0; ask[w] = true } \
	:: atomic { verb_of[AT(w, t)] > 0 && up(w) -> settle(t, fence_of[AT(w, t)], verb_of[AT(w, t)]); verb_of[AT(w, t)] = 0; fence_of[AT(w, t)] = 0; ask[w] = true; \
		if /* its caller may not receive again */ \
		:: skip \
		:: WANT == 1 && nLeave > 0 && rq[w] == 0 && !leaving[w] && !down[1 - w] -> nLeave--; gone[w] = true; ask[w] = false; msg[w] = false \
		fi } \
	:: atomic { verb_of[AT(w, t)] > 0 && up(w) && nSlost > 0 -> nSlost--; settle(t, fence_of[AT(w, t)], verb_of[AT(w, t)]) } \
	:: atomic { verb_of[AT(w, t)] > 0 && up(w) && nSlate > 0 && lateV[t] == 0 -> nSlate--; lateV[t] = verb_of[AT(w, t)]; lateF[t] = fence_of[AT(w, t)] }

#define unsettled(t)	(verb_of[AT(0, t)] == 0 && verb_of[AT(1, t)] == 0 && (rq[0] == 0 || !up(0)) && (rq[1] == 0 || !up(1)))

#define TASK_STEPS(t) \
	:: atomic { lateV[t] > 0 -> settle(t, lateF[t], lateV[t]); lateV[t] = 0; lateF[t] = 0 } \
	:: atomic { lateV[t] > 0 -> lateV[t] = 0; lateF[t] = 0 } \
	:: atomic { next_task == t -> enqueue(t); next_task++ } \
	:: atomic { next_task == t && nElate > 0 -> nElate--; lateE[t] = true } \
	:: atomic { lateE[t] -> lateE[t] = false; if :: st[t] != ABSENT || next_task >= t -> enqueue(t) :: else fi } \
	/* no worker has it: the lease may end */ \
	:: atomic { timers && st[t] == LEASED && !over[t] && !held(t) && (nEnds > 0 || unsettled(t)) -> \
		if :: unsettled(t) :: else -> nEnds-- fi; over[t] = true }

active proctype system() {
	do
	WORKER_STEPS(0)
	WORKER_STEPS(1)
	DELIVERY_STEPS(0, 0)
	DELIVERY_STEPS(0, 1)
	DELIVERY_STEPS(0, 2)
	DELIVERY_STEPS(1, 0)
	DELIVERY_STEPS(1, 1)
	DELIVERY_STEPS(1, 2)
	TASK_STEPS(0)
	TASK_STEPS(1)
	TASK_STEPS(2)
	:: else -> break
	od;
	assert(st[0] == DONE && st[1] == DONE && st[2] == DONE);	/* none stuck, none lost */
	assert(head[0] == NONE && head[1] == NONE)
}
