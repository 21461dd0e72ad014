//go:build !linux

package agent

import (
	"time"

	"github.com/google/uuid"
)

// bootMs counts from the process's start: the other systems' boot clocks are not
// read yet, so ages do not count the time asleep there.
func bootMs() func() uint64 {
	began := time.Now()
	return func() uint64 { return uint64(time.Since(began).Milliseconds()) }
}

// bootID is new with every process, because bootMs is.
func bootID() string { return uuid.NewString() }

// residentBytes is not known here.
func residentBytes() uint64 { return 0 }
