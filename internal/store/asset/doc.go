// Package asset keeps the archives of Assets in a folder, each under its SHA-512: a file
// of that name is whole, has that sum, and is on the disk, because it was written beside,
// checked, synced and only then renamed. Archives that no Asset names are removed after a
// while. It has no goroutines; its lock guards the table of names. Start at store.go.
package asset
