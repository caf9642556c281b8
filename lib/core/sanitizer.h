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

namespace hif8 {

#if defined(HIF8_ADDRESS_SANITIZER) || defined(HIF8_THREAD_SANITIZER)
inline constexpr bool kSanitizedBuild = true;
#else
inline constexpr bool kSanitizedBuild = false;
#endif

}  // namespace hif8
