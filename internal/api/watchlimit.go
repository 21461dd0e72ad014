package api

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// watchesPerToken leaves watches for others: the server has a bound for all of them
// (the queue watches).
const watchesPerToken = 32

// watchLimit counts the watches of each token.
type watchLimit struct {
	mu sync.Mutex
	by map[string]int
}

// enter counts one until leave.
func (l *watchLimit) enter(token string) (leave func(), err *model.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[token] >= watchesPerToken {
		return nil, model.Errorf(model.Limited, "this token has its %d watches", watchesPerToken).WithHint("end one of them, or give each program a token of its own: muster auth token create")
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
