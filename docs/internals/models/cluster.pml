/*
 * The wait queue of one lock of a Cluster, whose slot moves between two servers,
 * for spin. docs/internals/models/README.md says how to run it and what was seen.
 *
 * One atomic step is one script at a server, or one step of a client. Requests,
 * answers and messages are under way for any time. Polls come only when a
 * channel is confirmed or lost, never by a timer: messages and these polls must
 * be enough. The graph has no cycle (checked by "pan -l").
 *
 * A move has two steps. First the keys are at the new server, to which the old
 * one redirects by ASK. Channels are still at the old one, so no message arrives.
 * Then the slot is at the new server: the old one ends the channels, and
 * redirects by MOVED.
 *
 * Not in the model: time, crashes, keys that move one by one, several locks,
 * and what queue.pml has.
 */

#define NW 2		/* waiters, each of another client */

#ifndef MOVES
#define MOVES 1
#endif
#ifndef LATE
#define LATE 0		/* requests left unanswered that are executed later, or never */
#endif
#ifndef LOST
#define LOST 0		/* lost answers */
#endif
#ifndef MSGTWICE
#define MSGTWICE 0	/* messages that come twice */
#endif
#ifndef SLOW
#define SLOW 0		/* reservations that end; only with EXCLUSION_ONLY, as a timer mends that */
#endif
#ifndef CUT
#define CUT 0		/* lost connections of a subscription */
#endif

#define NONE	2	/* no server */
#define FREE	0
#define HELD(w)	(1 + (w))
#define RES(w)	(16 + (w))

/* ---- the servers: 0 and 1 ---- */
byte keysAt, slotAt;
#ifdef OTHER		/* somebody else has the lock at first, and releases it */
byte L = HELD(NW);
bool other = true;
#else
byte L = FREE;
bool other = false;
#endif
bool inQ[NW];
byte ticket[NW], t;
bool counted[NW];	/* the last heartbeat had a receiver */
byte listens[NW];	/* the server that knows the client's channel, or NONE */

/* ---- on the way ---- */
mtype = { idle, enq, clm, granted, queued, notqueued };
mtype rq[NW] = idle, late[NW] = idle;
byte rqAt[NW], lateAt[NW];
byte poll[NW];		/* 0 none, 1 asked, 2 answered */
byte pollAt[NW];
bool named[NW];		/* by the answer of the poll */
bool msg[NW];
byte ask[NW], conf[NW], refused[NW], sun[NW];	/* SSUBSCRIBE, its answers, the end: server + 1, or 0 */

/* ---- the clients ---- */
mtype = { new, waiting, holds, over };
mtype ph[NW] = new;
byte view[NW];		/* the server that had the key last */
mtype = { none, asked, up };
mtype chan_[NW] = none;
byte chanAt[NW];
bool known[NW], wake[NW], pollnow[NW], news[NW];
bool cancelling[NW], releasing[NW], unknown[NW];

byte nMoves = MOVES, nLate = LATE, nLost = LOST, nTwice = MSGTWICE, nCut = CUT, nSlow = SLOW;
byte x, chosen;
mtype dropped = idle;

/* ---------------------------------------------------------------- scripts */

inline front() {
	x = NW;
	if
	:: inQ[0] && (!inQ[1] || ticket[0] < ticket[1]) -> x = 0
	:: inQ[1] && (!inQ[0] || ticket[1] < ticket[0]) -> x = 1
	:: else
	fi
}

#define reached(w)	(listens[w] == keysAt)

inline hand_off(me) {
	L = FREE;
	chosen = NW;
	do
	:: front();
		if
		:: x == NW -> break
		:: x != NW && x == me -> chosen = x; break
#ifndef FAIR
		:: x != NW && x != me && !reached(x) && counted[x] -> inQ[x] = false	/* its client seems gone; its poll puts it back */
		:: x != NW && x != me && (reached(x) || !counted[x]) ->
#else
		:: x != NW && x != me ->
#endif
			chosen = x;
			L = RES(x);
			inQ[x] = false;
			if
			:: reached(x) -> msg[x] = true
			:: else
			fi;
			break
		fi
	od;
	x = 0
}

inline take(w) {
	L = HELD(w);
	inQ[w] = false
}

inline zadd(w) {
	if
	:: inQ[w]
	:: else -> inQ[w] = true; if :: ticket[w] == 0 -> t++; ticket[w] = t :: else fi
	fi
}

#ifdef M_NOT_IDEMPOTENT		/* a script does not know its own copy */
#define own(w)	false
#else
#define own(w)	(L == HELD(w))
#endif

inline enqueue(w, answer) {
	if
	:: own(w) -> answer = granted
	:: L == RES(w) -> take(w); answer = granted
	:: L == FREE ->
		zadd(w);
		hand_off(w);
		if
		:: chosen == w -> take(w); answer = granted
		:: else -> answer = queued
		fi;
		chosen = 0
	:: else -> zadd(w); answer = queued
	fi
}

inline claim(w, answer) {
	if
	:: own(w) -> answer = granted
	:: L == RES(w) -> take(w); answer = granted
	:: L == FREE && inQ[w] ->
		hand_off(w);
		if
		:: chosen == w -> take(w); answer = granted
		:: else -> answer = queued
		fi;
		chosen = 0
	:: L == FREE && !inQ[w] -> hand_off(NW); chosen = 0; answer = notqueued
	:: L != FREE && !own(w) && L != RES(w) ->
		if
		:: inQ[w] -> answer = queued
		:: else -> answer = notqueued
		fi
	fi
}

inline cancel(w, hold) {
	inQ[w] = false;
	if
	:: L == RES(w) || (hold && L == HELD(w)) || L == FREE -> hand_off(NW)
	:: else
	fi;
	chosen = 0
}

inline pollscript(w) {
	counted[w] = reached(w);
	if
	:: !inQ[w] && L != RES(w) && L != HELD(w) -> inQ[w] = true
	:: else
	fi;
	if
	:: L == FREE -> hand_off(NW); chosen = 0
	:: else
	fi;
	named[w] = (L == RES(w) || L == HELD(w))
}

/* ---------------------------------------------------------------- clients */

inline exclusive() { assert((ph[0] == holds) + (ph[1] == holds) + other <= 1) }

inline deliver(w) {
	if
#ifdef M_MESSAGE_GRANTS
	:: ph[w] == waiting -> rq[w] = idle; ph[w] = holds; exclusive()
#else
	:: ph[w] == waiting -> wake[w] = true
#endif
	:: else -> unknown[w] = true
	fi
}

/* use subscribes at the server of the key, as the client knows it. */
inline use(w) {
	if
	:: chan_[w] == none || chanAt[w] != view[w] ->
#ifdef M_SUBSCRIBES_ONCE
		if
		:: known[w]
		:: else -> chan_[w] = asked; chanAt[w] = view[w]; ask[w] = view[w] + 1
		fi
#else
		chan_[w] = asked; chanAt[w] = view[w]; ask[w] = view[w] + 1
#endif
	:: else
	fi
}

inline lost(w) {
	chan_[w] = none;
	news[w] = true;
#ifndef M_NO_POLL_AT_THE_END
	pollnow[w] = known[w];
#endif
	skip
}

/* A server without the slot refuses a request by MOVED, and it goes to the one
 * that has it. While the keys are at the new server already, that redirects it
 * by ASK, which is no separate step here. */
#define redirect(w, at)	at = slotAt; view[w] = slotAt

/* Only what finds something is a step, and the last copy. */
#define again(w)	(inQ[w] || L == RES(w) || L == HELD(w) || late[w] == idle)

#define STEPS(w) \
	:: atomic { ph[w] == new -> ph[w] = waiting; rq[w] = enq; rqAt[w] = view[w]; news[w] = false } \
	:: atomic { (rq[w] == enq || rq[w] == clm) && rqAt[w] != slotAt -> redirect(w, rqAt[w]) } \
	:: atomic { rq[w] == enq && rqAt[w] == slotAt -> enqueue(w, rq[w]) } \
	:: atomic { rq[w] == clm && rqAt[w] == slotAt -> claim(w, rq[w]) } \
	:: atomic { rq[w] == granted -> rq[w] = idle; wake[w] = false; ph[w] = holds; exclusive() } \
	:: atomic { rq[w] == queued -> rq[w] = idle; use(w); known[w] = true; pollnow[w] = pollnow[w] || NEWS(w); news[w] = false } \
	:: atomic { rq[w] == notqueued -> rq[w] = enq; rqAt[w] = view[w] } \
	:: atomic { ph[w] == waiting && rq[w] == idle && wake[w] -> wake[w] = false; rq[w] = clm; rqAt[w] = view[w]; news[w] = false } \
	:: atomic { ph[w] == holds -> ph[w] = over; releasing[w] = true; cancelling[w] = (late[w] != idle) } \
	:: atomic { releasing[w] -> releasing[w] = false; if :: L == HELD(w) -> hand_off(NW); chosen = 0 :: else fi } \
	:: atomic { cancelling[w] && again(w) -> cancelling[w] = (late[w] != idle); cancel(w, true) } \
	:: atomic { unknown[w] -> unknown[w] = false; cancel(w, false) } \
	:: atomic { msg[w] -> msg[w] = false; deliver(w) } \
	:: atomic { msg[w] && nTwice > 0 -> nTwice--; deliver(w) } \
	/* a request or an answer that takes too long: the next one goes where the key is then */ \
	:: atomic { (rq[w] == enq || rq[w] == clm) && nLate > 0 && late[w] == idle -> nLate--; late[w] = rq[w]; lateAt[w] = rqAt[w]; rq[w] = enq; rqAt[w] = view[w] } \
	:: atomic { (rq[w] == granted || rq[w] == queued || rq[w] == notqueued) && nLost > 0 -> nLost--; rq[w] = enq; rqAt[w] = view[w] } \
	:: atomic { late[w] == enq && lateAt[w] == slotAt -> late[w] = idle; enqueue(w, dropped); dropped = idle } \
	:: atomic { late[w] == clm && lateAt[w] == slotAt -> late[w] = idle; claim(w, dropped); dropped = idle } \
	:: atomic { late[w] != idle -> late[w] = idle }		/* lost, or refused by a server without the keys */ \
	:: atomic { L == RES(w) && nSlow > 0 -> nSlow--; L = FREE } \
	/* polls */ \
	:: atomic { poll[w] == 0 && pollnow[w] && ph[w] == waiting && known[w] && rq[w] == idle -> pollnow[w] = false; poll[w] = 1; pollAt[w] = view[w] } \
	:: atomic { poll[w] == 1 && pollAt[w] != slotAt -> redirect(w, pollAt[w]) } \
	:: atomic { poll[w] == 1 && pollAt[w] == slotAt -> pollscript(w); poll[w] = 2 } \
	:: atomic { poll[w] == 2 -> poll[w] = 0; \
		if :: ph[w] == waiting -> use(w) :: else fi; \
		if :: named[w] -> named[w] = false; deliver(w) \
		:: !named[w] && ph[w] != waiting -> unknown[w] = true	/* the poll may have put it back */ \
		:: else fi } \
	/* the channel */ \
	:: atomic { ask[w] != 0 -> if :: ask[w] == slotAt + 1 -> listens[w] = slotAt; conf[w] = ask[w] :: else -> refused[w] = ask[w] fi; ask[w] = 0 } \
	:: atomic { conf[w] != 0 -> if :: chanAt[w] == conf[w] - 1 && chan_[w] == asked -> chan_[w] = up; news[w] = true; CONFIRMED(w) :: else fi; conf[w] = 0 } \
	:: atomic { refused[w] != 0 -> if :: chanAt[w] == refused[w] - 1 && chan_[w] == asked -> lost(w) :: else fi; refused[w] = 0 } \
	:: atomic { sun[w] != 0 && conf[w] != sun[w] -> if :: chanAt[w] == sun[w] - 1 && chan_[w] == up -> lost(w) :: else fi; sun[w] = 0 } \
	:: atomic { nCut > 0 && chan_[w] == up && sun[w] == 0 && listens[w] != NONE -> nCut--; listens[w] = NONE; msg[w] = false; lost(w) }

#ifdef M_NO_POLL_AT_CONFIRMATION
#define CONFIRMED(w)	skip
#else
#define CONFIRMED(w)	pollnow[w] = known[w]	/* before, there is no poll */
#endif

#ifdef M_ENQUEUE_FORGETS	/* what happened to the channel while it was under way */
#define NEWS(w)	false
#else
#define NEWS(w)	news[w]
#endif

inline end_channel(w) {		/* the slot is at another server */
	if
	:: listens[w] == 1 - slotAt -> listens[w] = NONE; sun[w] = 2 - slotAt
	:: else
	fi
}

active proctype system() {
	listens[0] = NONE;
	listens[1] = NONE;
	do
	STEPS(0)
	STEPS(1)
	:: atomic { nMoves > 0 && keysAt == slotAt && sun[0] == 0 && sun[1] == 0 -> nMoves--; keysAt = 1 - keysAt }
	:: atomic { keysAt != slotAt -> slotAt = keysAt; end_channel(0); end_channel(1) }
	:: atomic { other -> other = false; hand_off(NW); chosen = 0 }
	:: else -> break
	od;
#ifndef EXCLUSION_ONLY
	assert(ph[0] == over && ph[1] == over);		/* nobody is left waiting */
	assert(L == FREE && !inQ[0] && !inQ[1])
#endif
}
