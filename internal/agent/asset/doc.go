// Package asset caches the extracted archives of Assets on a node and, for handlers, on the server. It
// fetches an archive, verifies its SHA-512, extracts it into a folder that no entry can leave, and removes
// the least recently used archives above a limit.
//
// One goroutine (Cache.Run) fetches and extracts, one archive after the other; its lock
// guards the table and is not held meanwhile. Start at archive_cache.go; extract_archive.go extracts one archive;
// download_and_verify.go downloads one archive and finds changed files of an extracted archive.
package asset
