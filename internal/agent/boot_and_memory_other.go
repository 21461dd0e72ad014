//go:build !linux

package agent

import (
	"time"

	"github.com/google/uuid"
)

// bootMs returns a function that counts milliseconds since the process started, not since the boot. Only Linux has a
// clock that also counts the time asleep.
func bootMs() func() uint64 {
	began := time.Now()
	return func() uint64 { return uint64(time.Since(began).Milliseconds()) }
}

// bootID returns a random id for each start of the process, in place of the machine's boot id. The reason is that
// bootMs counts from the start of the process.
func bootID() string { return uuid.NewString() }

// residentBytes returns 0, because the agent reads its resident memory only on Linux.
func residentBytes() uint64 { return 0 }
