// Package tries slows down whoever tries secrets: passwords, join tokens, signatures. So many at once
// has each network that one person holds, then one every few seconds.
//
// Either each try is counted (Allow), or a wrong one is once it was looked at (Tired, Allow); where looking
// costs much, Begin also bounds how many are looked at together, so that tries at the same time
// are no more than tries in turn. No goroutines; a Limiter has one lock. Start reading at limiter.go.
package tries
