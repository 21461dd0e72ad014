package intent

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// TidyNow does what Tidy does once an hour.
func (s *Service) TidyNow(ctx context.Context) error { return s.tidy(ctx) }

// WriteSeenNow does what Run does every other second.
func (s *Service) WriteSeenNow(ctx context.Context) error { return s.writeSeen(ctx) }

// ForgetNow lets time pass for ephemeral nodes that are away.
func (s *Service) ForgetNow(ctx context.Context, away map[uuid.UUID]time.Duration, passed time.Duration) error {
	return s.forget(ctx, away, passed)
}

// Held is how much memory holds of nodes and of what became of them.
func (s *Service) Held() (nodes, keys, ephemeral, tombstones int) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.byUID) + len(s.nodes.keys), len(s.nodes.byKey) + len(s.nodes.tombs.byKey), len(s.nodes.ephemeral), len(s.nodes.tombs.by)
}

// OtherPace lets every node be written at once again.
func (s *Service) OtherPace() {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	clear(s.nodes.paces)
}

// Joining is how many machines wait for those that are being written.
func (s *Service) Joining() int {
	s.joins.mu.Lock()
	defer s.joins.mu.Unlock()
	return len(s.joins.waits)
}
