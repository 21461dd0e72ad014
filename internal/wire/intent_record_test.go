package wire

import "testing"

// TestIntentRecordsDecodeWithoutAllocation expects no memory allocation when the journal record of a resource
// revision is decoded. Each of 256 partitions decodes a mark each second.
func TestIntentRecordsDecodeWithoutAllocation(t *testing.T) {
	data := AppendRecord(nil, &Record{Kind: RecordIntent, Intent: IntentRecord{Revision: 7, LastID: 1003, Recorded: 12}})
	var r Record
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Decode(data); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per record", n)
	}
	if want := (IntentRecord{Revision: 7, LastID: 1003, Recorded: 12}); r.Intent != want {
		t.Errorf("got %+v", r.Intent)
	}
}
