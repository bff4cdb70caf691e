package flow

// Step returns the state of a call after an event, and what its caller has to do. Several actions are
// done in the order in which they are declared.
func Step(s State, e Event) (State, Do) {
	do := s.step(&e)
	return s, do
}

func (s *State) step(e *Event) Do {
	switch {
	case e.Kind == Offer:
		return s.offer(e.Guard)
	case e.Kind == Failed:
		return s.failed(e)
	case e.Kind == Found:
		return s.found(e.Fate)
	case s.End != None:
		return 0
	}
	switch e.Kind {
	case Frame:
		return s.frame(e)
	case Ready:
		return s.ready(e)
	case Unheard:
		return s.unheard(e)
	case Heard:
		s.alive(e)
	case Timer:
		return s.timer(e)
	case Flushed:
		s.flushed(e)
	case ServerLost:
		return s.serverLost(e)
	case ProbeSent:
		return s.probeSent(e)
	case Told:
		return s.told(e)
	case Over:
		return s.over(e)
	case Agreed:
		return s.agreed(e)
	case Denied:
		return s.denied(e)
	case PermitSent:
		s.permitSent(e)
	case Sent:
		s.sent(e)
	case Nobody:
		return s.end(Unserved)
	case NotSent:
		return s.end(Unsent)
	case Garbled:
		return s.end(Broken)
	case Flooded:
		return s.end(Overrun)
	case Oversize:
		return s.end(TooLarge)
	}
	return 0
}

// offer begins an attempt.
func (s *State) offer(guard Guard) Do {
	*s = State{Terms: s.Terms, Attempt: s.Attempt + 1, Most: s.Most, Doubt: s.Doubt, Lost: s.Lost, Guard: guard}
	if s.Attempt == 1 {
		s.Most = maxAttempts
	}
	switch guard {
	case Asked:
		s.Phase = Offered
	case Ahead:
		s.Phase = Deciding
		return Decide
	}
	return Send
}

// sent begins to wait for an answer.
func (s *State) sent(e *Event) {
	s.At, s.Asking = e.Instance, false
	s.alive(e)
	if s.At != "" && s.moves(e) {
		s.Until = e.Now + maxUnheard
	}
	switch {
	case s.cutOff(e):
		s.Patience = maxUnreached
	case e.Tried > 1:
		s.Patience = maxSlow
	default:
		s.Patience = maxStall
	}
}

// unheard ends an attempt whose message nobody received, unless another one may have arrived. If that
// was the request, the next instance gets it.
func (s *State) unheard(e *Event) Do {
	switch {
	case s.Permits > 1 && !s.Probing:
		s.Permits--
	case s.Probing && s.cutOff(e) && len(e.Around.Others) == 0:
		return s.end(Away)
	case s.Probing:
		return s.end(Gone)
	case s.Permits > 0:
		if s.Phase == Permitted && s.Guard == Asked {
			s.Phase = Offered // it asked, but was gone before the permit arrived
		}
		return s.end(Gone)
	case s.At != "":
		s.At = ""
		return Send
	default:
		return s.end(Unserved)
	}
	return 0
}

// ready answers an instance that asks whether it may begin. Only one instance gets permits.
func (s *State) ready(e *Event) Do {
	switch {
	case e.Instance == "" || s.Phase == Open || s.Phase == Running && s.Guard == Free:
		return 0 // there is nothing to ask
	case s.Phase == Offered:
		s.Phase, s.By = Deciding, e.Instance
		return Decide
	case s.By == "":
		s.By = e.Instance
	case s.By != e.Instance:
		return Refuse
	}
	return Permit // the first permit was lost, or crossed with the question
}

// agreed permits the call.
func (s *State) agreed(e *Event) Do {
	switch {
	case s.Phase == Overtaken:
		s.Phase = Running
		return s.part(e)
	case s.Guard == Ahead:
		s.Phase = Permitted
		return Send
	}
	return Permit
}

// permitSent counts a permit. Where it could not be sent, nothing has changed.
func (s *State) permitSent(e *Event) {
	leaves := s.Phase == Leaving
	if e.OK {
		s.Permits++
		s.Outdated = true
	}
	if s.Phase == Deciding || leaves {
		s.Phase = Offered
		if e.OK { // fault:permit-forgotten
			s.Phase = Permitted
		}
	}
	if leaves {
		s.End = GaveUp
	}
}

// denied ends a call that its caller does not permit.
func (s *State) denied(e *Event) Do {
	switch s.Phase {
	case Overtaken:
		s.Phase = Running
		return s.end(Overruled)
	case Leaving:
		s.Phase, s.End = Offered, GaveUp
		return 0
	}
	return s.refused(e, Refused)
}

func (s *State) refused(e *Event, end End) Do {
	s.Phase, s.End = Offered, end
	if e.Instance == "" {
		return 0 // it was not sent
	}
	return Refuse
}

// over ends a call whose caller waits no longer. One that it leaves to others has to be permitted:
// otherwise its instance would ask in vain, and then say that nothing ran.
func (s *State) over(e *Event) Do {
	end := GaveUp
	switch {
	case s.Phase == Overtaken:
		s.Phase, end = Running, Overruled
	case s.Phase == Leaving:
		s.Phase, s.End = Offered, GaveUp
		return 0
	case e.Left && s.By != "" && s.Unbegun():
		s.Phase = Leaving
		return Decide
	case s.Phase == Deciding:
		return s.refused(e, GaveUp)
	}
	if e.Left {
		s.End = end
		return 0
	}
	return s.end(end)
}

// frame counts a frame and notices copies and gaps.
func (s *State) frame(e *Event) Do {
	s.Seq += e.Skipped
	switch {
	case e.Part == Unnumbered, e.Seq != 0 && e.Seq <= s.Seq:
		return 0
	case e.Seq == s.Seq+1:
	case s.permitted() && s.askable(e):
		s.Torn = true
	default:
		return s.end(Lossy)
	}
	if s.Seq = e.Seq; s.Seq == 1 && s.By == "" {
		s.By = e.Instance
	}
	if e.Part == Alive || e.Part == Failure {
		return Count | s.part(e)
	}
	if s.Phase == Offered {
		// It is older than its announcement said, or breaks the protocol.
		s.Phase = Overtaken
		if e.Instance != "" {
			s.By = e.Instance
		}
		return Count | Decide
	}
	s.Phase = Running
	return Count | s.part(e)
}

// part is what a frame is good for.
func (s *State) part(e *Event) Do {
	switch e.Part {
	case Disconnect:
		if e.MayLeave {
			return Deliver | s.end(Answered) // for this caller
		}
		return Deliver
	case Chunk:
		return Append
	case Result:
		if s.Torn {
			s.Settling, s.Outdated = true, false
			return Demand // a piece of it may be missing
		}
		return s.end(Answered)
	case Other, Failure:
		return s.end(Answered)
	}
	return Deliver
}

// permitted reports whether the call was permitted.
func (s *State) permitted() bool {
	return s.Phase == Permitted || s.Phase == Running && s.Guard != Free
}

// Unbegun reports whether it is certain that the call has not begun.
func (s *State) Unbegun() bool {
	return s.Phase == Offered || s.Phase == Deciding || s.Phase == Leaving
}

// repeatable reports whether the call can be made again whatever this attempt has done.
func (s *State) repeatable() bool { return s.Harmless || s.Unbegun() }

// Movable reports whether another instance can take the call from a silent one. The last attempt does
// not move: its instance gets the time of a slow one.
func (s *State) Movable() bool { return s.Attempt < s.Most && s.repeatable() }

// moves reports whether there is such an instance.
func (s *State) moves(e *Event) bool {
	if !s.Movable() {
		return false
	}
	holder := s.Holder(e.Around)
	for _, one := range e.Around.Others {
		if one != holder {
			return true
		}
	}
	return false
}

// Holder is the instance that has the call, empty while it is not known. If there is only one that can
// have it, it is that one.
func (s *State) Holder(a Around) string {
	switch {
	case s.By != "":
		return s.By
	case s.At != "":
		return s.At
	case len(a.Others) == 1:
		return a.Others[0]
	}
	return ""
}

// askable reports whether asking the instance helps. It remembers calls that asked for a permit; calls
// without effect are repeated if it does not know them.
func (s *State) askable(e *Event) bool {
	return (s.Guard == Asked || s.Harmless) && s.Edge && s.Holder(e.Around) != ""
}

// cutOff reports whether a hanging NATS server may keep a silent instance from answering a call that
// can be made again.
func (s *State) cutOff(e *Event) bool { return s.Harmless && e.Around.Clustered }
