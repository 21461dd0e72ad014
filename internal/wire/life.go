package wire

import "github.com/muster-fleet/muster/internal/model"

// The messages about the machine and the agent themselves, and of runs that somebody
// asked for: Facts, Stats, Ran. Field numbers are those of docs/protocol/muster.proto.
// None of them is kept in the journal.

// Facts says anew, and whole, what Hello said of the machine.
type Facts struct {
	Labels map[string]string // from the agent's configuration
	Facts  map[string]string // measured
	Groups []string          // self-declared
}

// Stats is the agent about itself. All but Spooled, SpoolBytes, ResidentBytes and OldestMs
// count since the agent began.
type Stats struct {
	UptimeMs      uint64 // of the agent
	Spooled       uint64 // signals that wait
	SpoolBytes    uint64
	Runs          uint64 // of checks
	Forks         uint64 // processes started
	Skipped       uint64 // runs left out: the one before still ran
	Late          uint64 // runs that had to wait for their turn
	BytesSent     uint64 // frames, before TLS
	GaveWay       uint64 // signals that the spool gave up
	Refused       uint64 // signals that a server refused
	Lost          uint64 // results that the spool did not take
	ResidentBytes uint64 // memory; zero: not known
	OldestMs      uint64 // age of the oldest signal that waits
}

// Ran is a piece of what a Run with an id brought; the last one says Done.
type Ran struct {
	ID         uint64
	Output     []byte // the next piece, as the command wrote it
	Done       bool
	Status     model.Status // with Done
	DurationMs uint32       // with Done
	Cut        uint64       // bytes of output that were cut away
	Refused    string       // why nothing was run, for people; with Done
}

// AppendFacts writes a whole frame.
func AppendFacts(dst []byte, x *Facts) []byte {
	dst, start := begin(dst, uint32(KindFacts))
	dst = appendMap(dst, 1, x.Labels)
	dst = appendMap(dst, 2, x.Facts)
	for _, g := range x.Groups {
		dst = appendItem(dst, 3, g)
	}
	return end(dst, start)
}

// Decode fills x from the body of a frame.
func (x *Facts) Decode(body []byte) error {
	*x = Facts{}
	f := fields{message: "Facts", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			f.entry("labels", &x.Labels, maxPairs)
		case 2:
			f.entry("facts", &x.Facts, maxPairs)
		case 3:
			if f.room("groups", len(x.Groups), maxGroups) {
				x.Groups = append(x.Groups, f.string("groups", maxName))
			}
		}
	}
	return f.err
}

// numbers are the fields of Stats, from 1 on.
func (x *Stats) numbers() [13]*uint64 {
	return [...]*uint64{&x.UptimeMs, &x.Spooled, &x.SpoolBytes, &x.Runs, &x.Forks, &x.Skipped, &x.Late, &x.BytesSent,
		&x.GaveWay, &x.Refused, &x.Lost, &x.ResidentBytes, &x.OldestMs}
}

// AppendStats writes a whole frame.
func AppendStats(dst []byte, x *Stats) []byte {
	dst, start := begin(dst, uint32(KindStats))
	for i, n := range x.numbers() {
		dst = appendUint(dst, uint32(i+1), *n)
	}
	return end(dst, start)
}

// Decode fills x from the body of a frame.
func (x *Stats) Decode(body []byte) error {
	*x = Stats{}
	f, numbers := fields{message: "Stats", rest: body}, x.numbers()
	for f.next() {
		if f.num <= uint64(len(numbers)) {
			*numbers[f.num-1] = f.uint64("number")
		}
	}
	return f.err
}

// AppendRan writes a whole frame.
func AppendRan(dst []byte, x *Ran) []byte {
	dst, start := begin(dst, uint32(KindRan))
	dst = appendFixed64(dst, 1, x.ID)
	dst = appendBytes(dst, 2, x.Output)
	dst = appendBool(dst, 3, x.Done)
	dst = appendUint(dst, 4, uint64(x.Status))
	dst = appendUint(dst, 5, uint64(x.DurationMs))
	dst = appendUint(dst, 6, x.Cut)
	dst = appendString(dst, 7, x.Refused)
	return end(dst, start)
}

// Decode fills x from the body of a frame. Output refers to body.
func (x *Ran) Decode(body []byte) error {
	*x = Ran{}
	f := fields{message: "Ran", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			x.ID = f.fixed64("id")
		case 2:
			x.Output = f.raw("output", MaxFrame)
		case 3:
			x.Done = f.bool("done")
		case 4:
			x.Status = model.Status(f.uint("status", uint64(model.Unknown)))
		case 5:
			x.DurationMs = f.uint32("duration_ms")
		case 6:
			x.Cut = f.uint64("cut")
		case 7:
			x.Refused = f.string("refused", maxText)
		}
	}
	return f.err
}
