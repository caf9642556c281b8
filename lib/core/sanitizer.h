// Which sanitizers this build has, whichever compiler made it.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HIF8_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HIF8_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define HIF8_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HIF8_THREAD_SANITIZER 1
#endif
#endif

#ifdef HIF8_THREAD_SANITIZER
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace hif8 {

#if defined(HIF8_ADDRESS_SANITIZER) || defined(HIF8_THREAD_SANITIZER)
inline constexpr bool kSanitizedBuild = true;
#else
inline constexpr bool kSanitizedBuild = false;
#endif

// Orders that a library built without the thread sanitizer establishes, told to it: all that this
// thread did so far is visible to a thread that calls ComesAfter with the same tag later. A tag is
// any address. Nothing in other builds.
inline void ComesBefore([[maybe_unused]] const void* tag) {
#ifdef HIF8_THREAD_SANITIZER
  __tsan_release(const_cast<void*>(tag));
#endif
}
inline void ComesAfter([[maybe_unused]] const void* tag) {
#ifdef HIF8_THREAD_SANITIZER
  __tsan_acquire(const_cast<void*>(tag));
#endif
}

}  // namespace hif8
