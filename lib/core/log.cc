#include "lib/core/log.h"

namespace hif8 {

LogSink& NullLog() {
  static LogSink sink;
  return sink;
}

}  // namespace hif8
