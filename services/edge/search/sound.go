package search

import (
	"slices"
	"strings"
)

// Limits of finding words that the dictionary lacks. They are found by their spelling: names, words that
// languages share, with the letters and endings of each, and typing errors.
const (
	opening    = 5  // compared letters at the beginning of a word
	likeSounds = 16 // largest number of similar words
	alike      = 60 // weight of a similar word, in hundredths
	maxWord    = 64 // longest word, in bytes, that is compared or looked up
)

var latin = strings.NewReplacer(
	"щ", "sh", "ш", "sh", "ч", "ch", "ж", "z", "ц", "c", "х", "h", "ю", "u", "я", "a", "э", "e", "й", "i", "ы", "i", "ь", "", "ъ", "",
	"а", "a", "б", "b", "в", "v", "г", "g", "д", "d", "е", "e", "з", "z", "и", "i", "к", "k", "л", "l", "м", "m", "н", "n", "о", "o",
	"п", "p", "р", "r", "с", "s", "т", "t", "у", "u", "ф", "f")

var plain = strings.NewReplacer("ph", "f", "ck", "k", "ch", "h", "sz", "sh", "cz", "ch", "x", "ks", "q", "k", "c", "k", "w", "v", "z", "s", "y", "i", "j", "i")

// sounds returns the keys under which words are similar: the beginning of a word, and its consonants. A
// short word has neither.
func sounds(word string) []string {
	w := plain.Replace(latin.Replace(word))
	letters := slices.Compact([]byte(w))
	var keys []string
	if len(letters) >= opening {
		keys = append(keys, "^"+string(letters[:opening]))
	}
	consonants := slices.DeleteFunc(letters, func(c byte) bool { return strings.IndexByte("aeiou", c) >= 0 })
	if len(consonants) > 3 {
		keys = append(keys, string(consonants))
	}
	return keys
}

// heard adds a word to the index, or removes it.
func (x *Index) heard(word string, there bool) {
	if strings.HasPrefix(word, idea) || len(word) > maxWord {
		return
	}
	for _, key := range sounds(word) {
		all := x.sounds[key]
		i, found := slices.BinarySearch(all, word)
		switch {
		case there && !found:
			x.sounds[key] = slices.Insert(all, i, word)
		case !there && found && len(all) == 1:
			delete(x.sounds, key)
		case !there && found:
			x.sounds[key] = slices.Delete(all, i, i+1)
		}
	}
}

// alike returns the words of the index that are similar to an unknown one.
func (x *Index) alike(word string) (all []term) {
	if len(word) > maxWord {
		return nil
	}
	for _, key := range sounds(word) {
		some := x.sounds[key]
		for _, other := range some[:min(len(some), likeSounds)] {
			all = append(all, term{other, alike})
		}
	}
	return all
}
