// Package disk is the file system as the journal, the spool and the snapshots see
// it: few calls, each of which can be made to fail, stall or be forgotten in a
// crash by a test. OS is the real one, memfs (crashes) and faultfs (faults) are
// for tests. Start at disk.go.
package disk
