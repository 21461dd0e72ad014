package wire

import "github.com/muster-fleet/muster/internal/model"

func appendSpan(dst []byte, field uint32, s *model.Span) []byte {
	dst, in := begin(dst, field)
	dst = appendString(dst, 1, s.Zone)
	for i := range s.Spans {
		w := &s.Spans[i]
		var at int
		dst, at = begin(dst, 2)
		dst = appendString(dst, 1, w.During)
		dst = appendString(dst, 2, w.Cron)
		dst = appendUint(dst, 3, uint64(w.For))
		dst = appendString(dst, 4, w.From)
		dst = appendString(dst, 5, w.To)
		dst = end(dst, at)
	}
	return end(dst, in)
}

func (f *fields) span() (s model.Span) {
	in := f.nested("except", "Except")
	for in.next() {
		switch in.num {
		case 1:
			s.Zone = in.string("zone", maxName)
		case 2:
			if in.room("spans", len(s.Spans), maxArgs) {
				s.Spans = append(s.Spans, in.stretch())
			}
		}
	}
	f.done(&in)
	return s
}

func (f *fields) stretch() (w model.WindowSpan) {
	in := f.nested("spans", "Span")
	for in.next() {
		switch in.num {
		case 1:
			w.During = in.string("during", maxText)
		case 2:
			w.Cron = in.string("cron", maxText)
		case 3:
			w.For = model.Duration(in.duration("for_ns"))
		case 4:
			w.From = in.string("from", maxText)
		case 5:
			w.To = in.string("to", maxText)
		}
	}
	f.done(&in)
	return w
}
