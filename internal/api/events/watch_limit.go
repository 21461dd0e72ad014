package events

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// watchesPerToken bounds the watches of one token, so that it cannot take all of the server's (the
// queue watches).
const watchesPerToken = 32

// watchLimit counts the watches of each token.
type watchLimit struct {
	mu sync.Mutex
	by map[string]int
}

// enter counts a watch until leave is called.
func (l *watchLimit) enter(token string) (leave func(), err *model.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[token] >= watchesPerToken {
		return nil, model.Errorf(model.Limited, "this token has %d watches open, the most", watchesPerToken).WithHint("end one of them, or give each program a token of its own: muster auth token create")
	}
	if l.by == nil {
		l.by = map[string]int{}
	}
	l.by[token]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.by[token]--; l.by[token] == 0 {
			delete(l.by, token)
		}
	}, nil
}
