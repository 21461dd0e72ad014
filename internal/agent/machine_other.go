//go:build !linux

package agent

import (
	"time"

	"github.com/google/uuid"
)

// bootMs returns a function that counts milliseconds since the start of the process, because only Linux has a clock
// that also counts the time asleep.
func bootMs() func() uint64 {
	began := time.Now()
	return func() uint64 { return uint64(time.Since(began).Milliseconds()) }
}

// bootID returns a random id for this process, because bootMs counts from the start of the process.
func bootID() string { return uuid.NewString() }

// residentBytes returns 0: the variant for systems other than Linux, because the agent reads its resident memory on Linux only.
func residentBytes() uint64 { return 0 }
