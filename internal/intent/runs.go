package intent

import "context"

// runKind is the row whose changes are the record of what people ran: its body says
// nothing.
const runKind = "run"

// RecordRun records who ran what where, before it is sent: by.Why says it, for people.
func (s *Service) RecordRun(ctx context.Context, by Who) error {
	_, err := s.commit(ctx, by, []Write{{Key: Key{Kind: runKind, Name: "run"}, Body: []byte("{}"), Expect: -1}})
	return err
}
