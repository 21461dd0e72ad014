package outputs

import (
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// New returns the generator of a check.
func New(seed uint64, k *scenario.Check) Generator {
	if k.Changes > 0 && len(k.Status) == 0 && k.Flapping == 0 && k.Output.Like == scenario.Digits {
		return &Digits{Size: max(MinLength, k.Output.Length()), Changes: k.Changes, Seed: seed}
	}
	s := &says{seed: seed, flapping: k.Flapping, like: k.Output.Like, size: int(k.Output.Bytes)}
	if s.like == "" || s.like == scenario.Digits {
		s.like, s.size = "", max(MinLength, k.Output.Length())
	}
	same, left := 0.0, 1.0
	for name, part := range k.Status {
		if status, ok := model.ParseStatus(name); ok && status != model.OK {
			s.mix[status] = part
			left -= part
			same += part * part
		}
	}
	s.mix[model.OK] = max(0, left)
	if same += left * left; same < 1 {
		s.change = k.Changes / (1 - same)
	} else {
		s.change, s.single = k.Changes, true
	}
	return s
}

// says generates the outputs of a plug-in, with statuses of a mix. Its states have the statuses of a mix: each keeps
// its own until it is drawn anew, which happens so often that the share of results that change the status is as asked;
// some change with every result. In a mix of one status, such as OK where the file says nothing, a change goes to any
// other, as it does with digits.
type says struct {
	seed     uint64
	mix      [4]float64 // share of each status
	change   float64    // share of results before which the status is drawn anew
	single   bool       // the mix has one status
	flapping float64    // share of the states that change with every result
	like     string     // empty: digits
	size     int        // of outputs; 0: as long as the plug-in's words
}

// Status draws the next status of a check on an agent.
func (s *says) Status(a, c int, _ *model.CheckDefinition, seq uint64, before model.Status, first bool) model.Status {
	own := Mix(s.seed ^ uint64(a)<<32 ^ uint64(c))
	if Share(Mix(own)) < s.flapping {
		if first || before != model.OK {
			return model.OK
		}
		return model.Critical
	}
	if first {
		return s.draw(Share(own))
	}
	r := Mix(own ^ seq)
	if Share(r) >= s.change {
		return before
	}
	if s.single {
		return another(before, r)
	}
	return s.draw(Share(Mix(r)))
}

// draw draws a status of the mix.
func (s *says) draw(at float64) model.Status {
	for status, part := range s.mix {
		if at -= part; at < 0 {
			return model.Status(status)
		}
	}
	return model.OK
}

// Output appends the plug-in's output with this status.
func (s *says) Output(dst []byte, a, c int, definition *model.CheckDefinition, seq uint64, status model.Status) []byte {
	r := Mix(s.seed ^ uint64(a)<<40 ^ uint64(c)<<20 ^ seq)
	if s.like == "" {
		return (&Digits{Size: s.size, Seed: s.seed}).Output(dst, a, c, definition, seq, status)
	}
	from := len(dst)
	dst = fillIn(dst, scenario.Words(s.like, status), r)
	switch {
	case s.size == 0:
		return dst
	case len(dst)-from < s.size:
		return fillUp(append(dst, '\n'), from+s.size, r)
	}
	return dst[:from+s.size]
}

// fillIn appends words with a random digit for each #.
func fillIn(dst []byte, words string, r uint64) []byte {
	left := 0
	for i := range len(words) {
		if words[i] != '#' {
			dst = append(dst, words[i])
			continue
		}
		if left == 0 {
			r, left = Mix(r), 16
		}
		dst = append(dst, '0'+byte(r&15*10>>4))
		r, left = r>>4, left-1
	}
	return dst
}

// Generator returns the statuses and outputs of checks. a is the agent, c the check, and seq the sequence number of the
// result, unique in the run and the same for the same seed.
type Generator interface {
	// Status is the next one of a state that had the one before. first: it had none.
	Status(a, c int, definition *model.CheckDefinition, seq uint64, before model.Status, first bool) model.Status
	// Output appends the output of the check for that status to dst.
	Output(dst []byte, a, c int, definition *model.CheckDefinition, seq uint64, status model.Status) []byte
}

// Of returns the generator of a check of a class, the same for every target.
func Of(sc *scenario.Scenario, class int, check *scenario.Check) Generator {
	return New(sc.Seed^uint64(class)<<48, check)
}
