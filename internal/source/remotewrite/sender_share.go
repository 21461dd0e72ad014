package remotewrite

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// maxSenderRequests bounds the requests of one token or user at the same time. It is half of the places of the queue samples, so that a
// sender whose bodies come slowly leaves places for others.
const maxSenderRequests = 8

// senderShares counts the requests that are handled, by credentials.
type senderShares struct {
	mu       sync.Mutex
	requests map[string]int
}

// enter counts a request until leave is called, or returns an error if its sender has too many.
func (s *senderShares) enter(credentials string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[credentials] >= maxSenderRequests {
		return nil, model.Errorf(model.Unavailable, "this token or user has %d requests in progress, the limit", maxSenderRequests).WithHint("send the samples again; queue_config.max_shards: %d", maxSenderRequests)
	}
	if s.requests == nil {
		s.requests = map[string]int{}
	}
	s.requests[credentials]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.requests[credentials]--; s.requests[credentials] == 0 {
			delete(s.requests, credentials)
		}
	}, nil
}
