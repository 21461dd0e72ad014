// Package asset keeps what archives of Assets hold where commands need it, on a node and, for
// handlers, on the server: it fetches an archive, believes it only by its SHA-512, extracts it so
// that nothing of it lies outside of its own folder, and removes what was not used for longest
// when there is too much.
//
// One goroutine (Cache.Run) fetches and extracts, one archive after the other; its lock
// guards the table and is not held meanwhile. Start at cache.go; extract.go is pure but for
// the folder that it is given; list.go finds what is not any more as it was extracted.
package asset
