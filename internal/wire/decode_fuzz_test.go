package wire

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// Every fuzz target holds: no panic, errors wrap ErrMalformed, and what decodes,
// encoded again, decodes to the same.

// fuzzBodies adds the encoded example messages of one kind to the seeds of a fuzz test. It adds each whole and cut.
func fuzzBodies(f *testing.F, kind Kind) {
	for _, g := range golden() {
		if k, body, err := FrameKind(g.bytes); err == nil && (k == kind || kind == 0) {
			if kind == 0 {
				body = g.bytes
			}
			f.Add(body)
			f.Add(body[:len(body)*2/3])
		}
	}
}

// fuzzMessage decodes random bytes, and expects ErrMalformed or a usable message. A decoded message is the same after
// encoding and decoding again.
func fuzzMessage[T any, P interface {
	*T
	Decode([]byte) error
}](f *testing.F, kind Kind, app func([]byte, P) []byte) {
	fuzzBodies(f, kind)
	f.Fuzz(func(t *testing.T, body []byte) {
		v := P(new(T))
		if err := v.Decode(body); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		frame := app(nil, v)
		if len(frame) > MaxFrame {
			return
		}
		k, again, err := FrameKind(frame)
		if err != nil || k != kind {
			t.Fatalf("own frame: kind %d, %v", k, err)
		}
		w := P(new(T))
		if err := w.Decode(again); err != nil {
			t.Fatalf("own bytes: %v", err)
		}
		if !reflect.DeepEqual(v, w) {
			t.Fatalf("got  %+v\nwant %+v", w, v)
		}
	})
}

// FuzzHello decodes random bytes as a Hello message, and expects ErrMalformed or a usable message. A decoded message
// is the same after encoding and decoding again.
func FuzzHello(f *testing.F) { fuzzMessage(f, KindHello, AppendHello) }

// FuzzWelcome decodes random bytes as a Welcome message, and expects ErrMalformed or a usable message. A decoded
// message is the same after encoding and decoding again.
func FuzzWelcome(f *testing.F) { fuzzMessage(f, KindWelcome, AppendWelcome) }

// FuzzRefuse decodes random bytes as a Refuse message, and expects ErrMalformed or a usable message. A decoded message
// is the same after encoding and decoding again.
func FuzzRefuse(f *testing.F) { fuzzMessage(f, KindRefuse, AppendRefuse) }

// FuzzAssignment decodes random bytes as an Assignment message, and expects ErrMalformed or a usable message. A
// decoded message is the same after encoding and decoding again.
func FuzzAssignment(f *testing.F) {
	f.Add(frameBody(f, AppendPackedAssignment(nil, newLargeAssignment())))
	fuzzMessage(f, KindAssignment, AppendAssignment)
}

// FuzzAssignmentStatus decodes random bytes as an AssignmentStatus message, and expects ErrMalformed or a usable
// message. A decoded message is the same after encoding and decoding again.
func FuzzAssignmentStatus(f *testing.F) { fuzzMessage(f, KindAssignmentStatus, AppendAssignmentStatus) }

// FuzzAck decodes random bytes as an Ack message, and expects ErrMalformed or a usable message. A decoded message is
// the same after encoding and decoding again.
func FuzzAck(f *testing.F) { fuzzMessage(f, KindAck, AppendAck) }

// FuzzRun decodes random bytes as a Run message, and expects ErrMalformed or a usable message. A decoded message is
// the same after encoding and decoding again.
func FuzzRun(f *testing.F) { fuzzMessage(f, KindRun, AppendRun) }

// FuzzBackPressure decodes random bytes as a BackPressure message, and expects ErrMalformed or a usable message. A
// decoded message is the same after encoding and decoding again.
func FuzzBackPressure(f *testing.F) { fuzzMessage(f, KindBackPressure, AppendBackPressure) }

// FuzzFacts decodes random bytes as a Facts message, and expects ErrMalformed or a usable message. A decoded message
// is the same after encoding and decoding again.
func FuzzFacts(f *testing.F) { fuzzMessage(f, KindFacts, AppendFacts) }

// FuzzStats decodes random bytes as a Stats message, and expects ErrMalformed or a usable message. A decoded message
// is the same after encoding and decoding again.
func FuzzStats(f *testing.F) { fuzzMessage(f, KindStats, AppendStats) }

// FuzzRunOutput decodes random bytes as a RunOutput message, and expects ErrMalformed or a usable message. A decoded
// message is the same after encoding and decoding again.
func FuzzRunOutput(f *testing.F) { fuzzMessage(f, KindRunOutput, AppendRunOutput) }

// FuzzExchange decodes random bytes as an Exchange message, and expects ErrMalformed or a usable message. A decoded
// message is the same after encoding and decoding again.
func FuzzExchange(f *testing.F) { fuzzMessage(f, KindExchange, AppendExchange) }

// FuzzBye decodes random bytes as a Bye message, and expects ErrMalformed or a usable message. A decoded message is
// the same after encoding and decoding again.
func FuzzBye(f *testing.F) { fuzzMessage(f, KindBye, AppendBye) }

// FuzzBatch decodes random bytes as a Batch message, and expects ErrMalformed or valid sequence numbers.
func FuzzBatch(f *testing.F) {
	fuzzBodies(f, KindBatch)
	f.Fuzz(func(t *testing.T, body []byte) {
		var r BatchReader
		if err := r.Reset(body); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		if r.Last() < r.First {
			t.Fatalf("covers %d to %d", r.First, r.Last())
		}
		var s Signal
		var signals []byte
		n := 0
		for r.Next(&s) {
			n++
			signals = AppendSignal(signals, &s)
		}
		if r.Err() != nil {
			if !errors.Is(r.Err(), ErrMalformed) {
				t.Fatalf("error of no class: %v", r.Err())
			}
			return
		}
		if n != r.Signals {
			t.Fatalf("%d signals, the header counted %d", n, r.Signals)
		}
		var b, again Batch
		if err := b.Decode(body); err != nil || len(b.Signals) != n {
			t.Fatalf("whole: %d signals, %v", len(b.Signals), err)
		}
		if n == 0 {
			return
		}
		whole := AppendBatch(nil, &b)
		parts := append(AppendBatchHeader(nil, b.StreamKey, b.First, b.NowMs, len(signals)), signals...)
		if !bytes.Equal(whole, parts) {
			t.Fatalf("whole %x\nparts %x", whole, parts)
		}
		_, encoded, err := FrameKind(whole)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Decode(encoded); err != nil || !reflect.DeepEqual(b, again) {
			t.Fatalf("got  %+v %v\nwant %+v", again, err, b)
		}
	})
}

// FuzzFrame splits random bytes into frame kind and body, and expects ErrMalformed or valid parts.
func FuzzFrame(f *testing.F) {
	fuzzBodies(f, 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, body, err := FrameKind(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		if kind == 0 || kind > 15 || len(body) > len(data) {
			t.Fatalf("kind %d, %d bytes of %d", kind, len(body), len(data))
		}
	})
}

// FuzzDefinition decodes random bytes as a compiled check, and expects ErrMalformed or a usable check. A decoded check
// is the same after encoding and decoding again.
func FuzzDefinition(f *testing.F) {
	f.Add(AppendDefinition(nil, goldenDefinition()))
	f.Add(AppendDefinition(nil, templateDefinition()))
	f.Add(AppendDefinition(nil, directiveDefinition()))
	f.Add(AppendDefinition(nil, ruleGroupDefinition()))
	f.Add(AppendDefinition(nil, (&model.CheckDefinition{Probe: &model.Probe{Name: "tcp", Args: map[string]string{"address": "localhost:22"}}, Cron: "*/5 * * * *"}).ToDefinition()))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeDefinition(3, body)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		again := AppendDefinition(nil, c)
		d, err := DecodeDefinition(3, again)
		if err != nil {
			t.Fatalf("own bytes: %v", err)
		}
		d.Hash = c.Hash // of other bytes, where the input was not in our order
		if !reflect.DeepEqual(c, d) {
			t.Fatalf("got  %+v\nwant %+v", d, c)
		}
	})
}

// FuzzResult decodes random bytes as a result, and expects ErrMalformed or a usable result. A decoded result is the
// same after encoding and decoding again.
func FuzzResult(f *testing.F) {
	f.Add(AppendResult(nil, &Result{Status: model.Warning, DurationMs: 3, Output: []byte("x"), Cut: 4, Extra: AppendExtra(nil, &Extra{Pipelines: []string{"a"}})}))
	fuzzBody(f, AppendResult)
}

// FuzzValueBlock decodes random bytes as a block of item values, and expects ErrMalformed or a usable block. A decoded
// block is the same after encoding and decoding again.
func FuzzValueBlock(f *testing.F) {
	f.Add(AppendValueBlock(nil, &ValueBlock{Rows: 1, Columns: []byte{7}}))
	fuzzBody(f, AppendValueBlock)
}

// FuzzReport decodes random bytes as a directive's report, and expects ErrMalformed or a usable report. A decoded
// report is the same after encoding and decoding again.
func FuzzReport(f *testing.F) {
	f.Add(AppendReport(nil, &Report{Components: 1, Codes: []byte{2}, Exceptions: []ReportException{{Message: "x"}}}))
	f.Add(AppendReport(nil, &Report{Signed: []byte{8, 1}}))
	fuzzBody(f, AppendReport)
}

// FuzzSignedRun decodes random bytes as the signed proof of a run, and expects ErrMalformed or a usable value.
// A decoded value is the same after encoding and decoding again.
func FuzzSignedRun(f *testing.F) {
	f.Add(AppendSignedRun(nil, &SignedRun{Number: 1, Previous: [32]byte{1}, Signature: [64]byte{2}, Certificate: []byte{3}}))
	fuzzBody(f, AppendSignedRun)
}

// TestReportCertificateEqualsFullDecoding reads only the certificate of an encoded report, and compares with full
// decoding.
func TestReportCertificateEqualsFullDecoding(t *testing.T) {
	for _, signed := range []*SignedRun{nil, {Number: 1}, {Number: 2, Certificate: []byte{3, 4}}} {
		r := Report{Components: 1, Codes: []byte{2}}
		var want []byte
		if signed != nil {
			r.Signed, want = AppendSignedRun(nil, signed), signed.Certificate
		}
		body := AppendReport(nil, &r)
		if got, err := ReportCertificate(body); err != nil || !bytes.Equal(got, want) {
			t.Errorf("certificate %x, %v, want %x", got, err, want)
		}
		if _, err := ReportCertificate(body[:len(body)-1]); err == nil {
			t.Error("a report that was cut has no error")
		}
	}
}

// FuzzInventory decodes random bytes as a change of an inventory, and expects ErrMalformed or a usable inventory. A
// decoded inventory is the same after encoding and decoding again.
func FuzzInventory(f *testing.F) {
	f.Add(AppendInventory(nil, &Inventory{Base: 1, Sum: 2, Added: []model.InventoryEntry{{Section: 5, Fields: []string{"tar", "1.34", "", "deb"}}}, Removed: []model.InventoryEntry{{Section: 7}}}))
	fuzzBody(f, AppendInventory)
}

// fuzzBody decodes random bytes as a signal's body, and expects ErrMalformed or a usable value.
func fuzzBody[T any, P interface {
	*T
	Decode([]byte) error
}](f *testing.F, app func([]byte, P) []byte) {
	f.Fuzz(func(t *testing.T, body []byte) {
		v, again := P(new(T)), P(new(T))
		if err := v.Decode(body); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		if err := again.Decode(app(nil, v)); err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("got  %+v %v\nwant %+v", again, err, v)
		}
	})
}

// FuzzExtra decodes random bytes as the extra fields of a result, and expects ErrMalformed or usable fields. Decoded
// fields are the same after encoding and decoding again.
func FuzzExtra(f *testing.F) {
	f.Add(AppendExtra(nil, &Extra{Sensu: &SensuRun{ExitCode: 255, Tail: "\n"}}))
	f.Add(AppendExtra(nil, &Extra{Hooks: []model.HookResult{{Name: "top", Output: "x"}}, Values: []model.Value{{Name: "a", Value: 1.5, Tags: map[string]string{"b": "c"}}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := DecodeExtra(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		if again, err := DecodeExtra(AppendExtra(nil, &x)); err != nil || !reflect.DeepEqual(x, again) {
			t.Fatalf("got  %+v %v\nwant %+v", again, err, x)
		}
	})
}

// FuzzRecord decodes random bytes as a journal record, and expects ErrMalformed or a usable record. A decoded record
// is the same after encoding and decoding again.
func FuzzRecord(f *testing.F) {
	for _, g := range golden() {
		if strings.Contains(g.name, "record") {
			f.Add(g.bytes)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again Record
		if err := r.Decode(data); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		if err := again.Decode(AppendRecord(nil, &r)); err != nil {
			t.Fatalf("own bytes: %v", err)
		}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("got  %+v\nwant %+v", again, r)
		}
	})
}

// FuzzDecodeMacros decodes random bytes as values of macros, and expects an error or usable values. Decoded values are
// the same after encoding and decoding again.
func FuzzDecodeMacros(f *testing.F) {
	f.Add(EncodeMacros(map[string]string{"{$A}": "1"}))
	f.Fuzz(func(t *testing.T, text string) {
		values, err := DecodeMacros(text)
		if err != nil || len(values) == 0 {
			return
		}
		again, err := DecodeMacros(EncodeMacros(values))
		if err != nil || !maps.Equal(values, again) {
			t.Fatalf("%v, then %v, %v", values, again, err)
		}
	})
}
