package flow

import "time"

// PermitTime is how long an instance asks. A caller that has not answered by then is gone.
const PermitTime = 3 * time.Second

// Question is the instance's side of a permit: whether a call may begin. Questions are numbered, and
// the number changes after every silence in which the caller may have given up, so that an instance
// that stood still cannot use an old permit. The zero Question was not asked yet.
type Question struct {
	// Turn is the number of the question, and asked the time when it was last sent. until is when the
	// instance stops asking.
	Turn         uint32
	asked, until time.Time
}

// Reply is what an instance does with a permit.
type Reply uint8

// The replies.
const (
	// Wait: the permit answers an earlier question. AskAgain: so it may be, and the question is asked
	// once more.
	Wait Reply = iota
	AskAgain
	// Begin: the call begins.
	Begin
	// Unwanted: the caller does not want it any more.
	Unwanted
	// CallerGone: the caller has not answered in time.
	CallerGone
)

// Ask returns the question that is sent now.
func (q Question) Ask(now time.Time) Question {
	if q.Turn == 0 {
		q.until = now.Add(PermitTime)
	}
	if q.Turn == 0 || q.stale(now) {
		q.Turn++
	}
	q.asked = now
	return q
}

// stale reports whether the caller may have given up since the question was sent.
func (q Question) stale(now time.Time) bool { return now.Sub(q.asked) >= MaxSilence }

// Heard is what a permit means that is read now, for the question with the number turn. 0 stands for
// the first one.
func (q Question) Heard(now time.Time, granted bool, turn uint32) Reply {
	switch {
	case !granted:
		return Unwanted
	case !now.Before(q.until): // a timer that is due may not have run yet
		return CallerGone
	case q.stale(now):
		return AskAgain
	case turn == q.Turn, turn == 0 && q.Turn == 1:
		return Begin
	}
	return Wait
}
