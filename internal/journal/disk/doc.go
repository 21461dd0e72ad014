// Package disk is the file system of the journal, the spool and the snapshots: few calls, each of which
// a test can make fail, stall or vanish in a crash. OS is the real one; memfs (crashes) and faultfs
// (faults) are for tests. Start at disk.go.
package disk
