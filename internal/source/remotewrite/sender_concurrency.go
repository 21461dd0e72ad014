package remotewrite

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// maxSenderRequests bounds the requests of one token or user at the same time. It is half of the places of the queue samples, so that a
// sender whose bodies come slowly leaves places for others.
const maxSenderRequests = 8

// requestCounts counts the requests in progress of each sender, by user or token.
type requestCounts struct {
	mu       sync.Mutex
	requests map[string]int
}

// beginRequest counts a sender's request as in progress, and returns a function to call after the request. It
// returns an error if the sender has too many requests.
func (s *requestCounts) beginRequest(credentials string) (leave func(), err error) {
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
