package wire

import "testing"

// TestIntentRecordsDecodeWithoutAllocation expects no allocation when an intent mark is decoded. Each of 256
// partitions decodes a mark each second.
func TestIntentRecordsDecodeWithoutAllocation(t *testing.T) {
	data := AppendRecord(nil, &Record{Kind: RecordIntent, Intent: IntentMark{Revision: 7, LastID: 1003, Recorded: 12}})
	var r Record
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Decode(data); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per record", n)
	}
	if want := (IntentMark{Revision: 7, LastID: 1003, Recorded: 12}); r.Intent != want {
		t.Errorf("got %+v", r.Intent)
	}
}
