package intent

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// EnforceRetentionNow does one round of EnforceRetention.
func (s *Service) EnforceRetentionNow(ctx context.Context) error { return s.enforce(ctx) }

// WriteReportsNow does one round of WriteReports.
func (s *Service) WriteReportsNow(ctx context.Context) error { return s.writePending(ctx) }

// ForgetAbsentNow lets time pass for absent ephemeral nodes.
func (s *Service) ForgetAbsentNow(ctx context.Context, away map[uuid.UUID]time.Duration, passed time.Duration) error {
	return s.Nodes.forget(ctx, away, passed)
}

// IndexSizes counts the entries of the indexes of nodes and tombstones.
func (s *Service) IndexSizes() (nodes, keys, ephemeral, tombstones int) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.byUID) + len(s.nodes.keys), len(s.nodes.byKey) + len(s.tombstones.byKey), len(s.nodes.ephemeral), len(s.tombstones.byRow)
}

// ResetPaces lets every node be written at once again.
func (s *Service) ResetPaces() {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	clear(s.nodes.paces)
}

// WaitingRequests counts the machines that wait for those being written.
func (s *Service) WaitingRequests() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waits)
}
