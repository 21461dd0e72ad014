package model

import "testing"

func TestBuiltinChecksAndChunksAnswerToTheirNames(t *testing.T) {
	for _, id := range []CheckID{KeepaliveCheck, SessionsCheck, JournalCheck, HistoryCheck, IdentityCheck, WatchdogCheck, StreamsCheck, LimitsCheck} {
		name := BuiltinCheckName(id)
		if name == "" || BuiltinCheck(name) != id {
			t.Errorf("check %d: name %q leads to %d", id, name, BuiltinCheck(name))
		}
		if c := BuiltinChunkOf(BuiltinChunk(id)); c == nil || c.Unit != id || c.Name != name {
			t.Errorf("check %d: chunk %+v", id, c)
		}
	}
	if BuiltinChunkOf(5) != nil || BuiltinChunkOf(firstBuiltinChunk) != nil || BuiltinCheck("disk") != 0 {
		t.Error("what is not built in must not be found")
	}
}
